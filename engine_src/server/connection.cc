#include "server/connection.h"

#include <algorithm>
#include <cassert>

#include "logging/log.h"
#include "server/front_end_thread.h"

namespace kv::server {

namespace {

/// A large request's buffer grows in steps of what has really arrived, not to what its header
/// announces.
constexpr size_t kLargeFrameStep = 256 << 10;
/// Bytes of large requests that are read before others have their turn.
constexpr size_t kLargeTurn = 4 << 20;
/// Where a large request is expected: its header and key, and little of its value, which would have
/// to be copied.
constexpr size_t kHeadRead = 4 << 10;
/// Kept for the next time when a connection's own buffers run empty.
constexpr size_t kKeepCapacity = 4 << 10;
/// Between two looks at what a request waits for, doubled with each: many that wait long cost
/// little, and what comes soon is seen soon.
constexpr auto kFirstWaitStep = std::chrono::milliseconds(5);
constexpr auto kLastWaitStep = std::chrono::milliseconds(80);
constexpr auto kLingerTime = std::chrono::seconds(2);

}  // namespace

Connection::Connection(FrontEndThread& thread, Fd socket, ConnectionSlot slot, uint64_t id)
    : slot_(std::move(slot)),
      thread_(thread),
      socket_(thread.base(), std::move(socket), onReadable, onWritable, this),
      session_(id, thread.server().users != nullptr) {
    session_.waker()->connect([&thread, id] { thread.wakeLater(id); });
    socket_.watchReadable(true);
}

Connection::~Connection() {
    session_.disconnectWaker();
    thread_.server().buffers.remove(id());
}

void Connection::onReadable(int, short, void* self) {
    auto& connection = *static_cast<Connection*>(self);
    connection.thread_.takeTurn(connection, [](Connection& it) { it.readAndRun(); });
}

void Connection::onWritable(int, short, void* self) {
    auto& connection = *static_cast<Connection*>(self);
    connection.thread_.takeTurn(connection, [](Connection& it) { it.sendAndSettle(); });
}

void Connection::onPauseOver(int fd, short what, void* self) {
    onWritable(fd, what, self);
}

void Connection::readAndRun() {
    thread_.stats().wakeups.add();
    assert(isRead(state_));
    if (state_ == State::Lingering) {
        receive(thread_.readBuffer(), thread_.readBufferSize());
        return;
    }
    if (inbox_.toSkip() != 0) {
        skipInput();
        return;
    }
    if (inbox_.wanted() > thread_.readBufferSize()) {
        readLargeFrames();
        return;
    }
    // The kept front part goes before what is read now, so that the loop sees one piece.
    uint8_t* buffer = thread_.readBuffer();
    const size_t kept = inbox_.copyTo(buffer);
    if (const size_t count = receive(buffer + kept, readLimit() - kept)) {
        inbox_.forgetCopied();
        run({buffer, kept + count});
    }
}

size_t Connection::readLimit() const {
    const size_t all = thread_.readBufferSize();
    const size_t room = inbox_.expectsLarge() ? std::min(kHeadRead, all) : all;
    // What stays of a read is kept: little before login. A request that is awaited fits.
    const size_t little = protocol::kHeaderSize + thread_.server().settings.maxBeforeLoginBytes;
    return session_.authenticated() ? room : std::min(room, std::max(little, inbox_.wanted()));
}

void Connection::skipInput() {
    const size_t room = std::min(inbox_.toSkip(), thread_.readBufferSize());
    if (const size_t count = receive(thread_.readBuffer(), room)) {
        inbox_.skipped(count, Clock::now());
    }
}

size_t Connection::receive(uint8_t* to, size_t room) {
    const auto count = socket_.receive(to, room);
    if (!count) {
        endOfInput();
        return 0;
    }
    thread_.stats().bytesRead.add(*count);
    return *count;
}

void Connection::endOfInput() {
    // Whether the client has closed its half or gone altogether is told by sending.
    if (isLeaving(state_) || output_.empty()) {
        close();
        return;
    }
    drain();
    inbox_.release();
    accountBuffers();
}

void Connection::drain() {
    enter(State::Draining);
    takenSince_ = Clock::now();
}

void Connection::readLargeFrames() {
    size_t left = kLargeTurn;
    bool ran = false;
    while (left != 0) {
        if (!inbox_.readsLarge()) {
            if (auto large = LargeRequest::start(thread_.server(), session_, inbox_.view())) {
                inbox_.readInto(std::move(large));
            }
        }
        const size_t step = inbox_.readsLarge() ? left : std::min(left, kLargeFrameStep);
        const size_t room = std::min(inbox_.missing(), step);
        const auto count = socket_.receive(inbox_.reserve(room), room);
        if (!count && !ran) {
            endOfInput();
            return;
        }
        // Where answers wait they are sent first: the end of the stream is met again.
        const size_t came = count.value_or(0);
        thread_.stats().bytesRead.add(came);
        left -= came;
        if (came == 0 || !inbox_.commit(came, Clock::now())) {
            if (came < room) {
                break;
            }
            continue;
        }
        if (!execute(inbox_.view())) {
            return;
        }
        ran = true;
        const size_t head = left != 0 ? receiveNextHead() : 0;
        if (head == 0) {
            break;
        }
        left -= std::min(left, head);
        if (!execute({thread_.readBuffer(), head})) {
            return;
        }
        if (!inbox_.readsLarge()) {
            break;
        }
    }
    if (ran) {
        sendBatch(produce());
    } else {
        accountBuffers();
    }
}

size_t Connection::receiveNextHead() {
    if (!isServing(state_) || !inbox_.expectsLarge()) {
        return 0;
    }
    const size_t count = socket_.receive(thread_.readBuffer(), readLimit()).value_or(0);
    thread_.stats().bytesRead.add(count);
    return count;
}

void Connection::run(protocol::Bytes input) {
    if (execute(input)) {
        sendBatch(produce());
    }
}

bool Connection::execute(protocol::Bytes input) {
    auto& server = thread_.server();
    CommandContext context{server, session_, thread_.output(), thread_.stats(), OpTime::now()};
    const size_t limit = unsentLimit();
    const size_t room = limit - std::min(limit, output_.size());
    Progress progress;
    if (inbox_.readsLarge()) {
        progress = runLarge(context, inbox_.takeLarge());
        inbox_.keep({}, progress, Clock::now());
        inbox_.expectLarge();
    } else {
        progress = runRequests(context, input, {server.settings.maxRequestsPerTurn, room});
        inbox_.keep(input, progress, Clock::now(), startLarge(input, progress));
    }
    if (progress.stop != Stop::Waiting || progress.consumed != 0) {
        waitStep_ = {};
    }
    switch (progress.stop) {
        case Stop::Close:
            thread_.output().clear();
            close();
            return false;
        case Stop::CloseFlushed:
            drain();
            break;
        case Stop::Penalty:
            output_.take(thread_.output());
            pause(State::Penalised, std::chrono::milliseconds(server.settings.authDelayMillis));
            return false;
        case Stop::Waiting:
            // The answers so far leave with the pause's end at the latest.
            produce();
            output_.take(thread_.output());
            if (send()) {
                waitStep_ = waitStep_.count() == 0 ? kFirstWaitStep
                                                   : std::min(2 * waitStep_, kLastWaitStep);
                pause(State::Waiting, waitStep_);
            }
            return false;
        case Stop::TurnOver:
            thread_.stats().yields.add();
            break;
        case Stop::NeedInput:
        case Stop::OutputFull:
            break;
    }
    return true;
}

LargeRequest Connection::startLarge(protocol::Bytes input, const Progress& progress) {
    if (progress.stop != Stop::NeedInput || progress.wanted <= thread_.readBufferSize())
            [[likely]] {
        return {};
    }
    return LargeRequest::start(thread_.server(), session_, input.subspan(progress.consumed));
}

bool Connection::produce() {
    Conversation* conversation = session_.conversation();
    if (conversation == nullptr || !isServing(state_)) [[likely]] {
        return false;
    }
    // Messages are copied, so less than one turn of requests may answer; a client that is behind
    // gets no more before it has read.
    const size_t limit = thread_.server().settings.maxUnsentBytes / 16;
    return output_.size() >= limit ||
           conversation->produce(thread_.output(), limit - output_.size());
}

void Connection::wake() {
    if (state_ == State::Waiting) {
        event_del(pauseEvent_.get());
        sendAndSettle();
    } else {
        speak();
    }
}

void Connection::speak() {
    if (isServing(state_) && session_.conversation() != nullptr) {
        sendBatch(produce());
    }
}

void Connection::sendBatch(bool moreToSay) {
    auto& batch = thread_.output();
    if (output_.empty() && !batch.empty()) {
        const auto sent = socket_.send(batch);
        if (!sent) {
            batch.clear();
            close();
            return;
        }
        thread_.stats().bytesWritten.add(*sent);
        batch.consume(*sent);
    }
    output_.take(batch);
    batch.releaseAbove(thread_.server().settings.maxUnsentBytes / 2);
    settle(moreToSay);
}

bool Connection::send() {
    while (!output_.empty()) {
        const auto sent = socket_.send(output_);
        if (!sent) {
            close();
            return false;
        }
        if (*sent == 0) {
            break;
        }
        thread_.stats().bytesWritten.add(*sent);
        output_.consume(*sent);
    }
    output_.releaseAbove(kKeepCapacity);
    return true;
}

void Connection::sendAndSettle() {
    if (send()) {
        // While Reading the conversation has nothing to say until it wakes us; else it is asked.
        settle(state_ != State::Reading && session_.conversation() != nullptr);
    }
}

Connection::State Connection::fitting(bool moreToSay) const {
    if (state_ == State::Draining) {
        return output_.empty() ? State::Lingering : State::Draining;
    }
    // A client that does not read is not served: its memory stays bounded.
    if (output_.size() >= unsentLimit()) {
        return State::Blocked;
    }
    if (inbox_.hasRequests()) {
        return State::Yielding;
    }
    return moreToSay ? State::Speaking : State::Reading;
}

void Connection::settle(bool moreToSay) {
    const State next = fitting(moreToSay);
    if (next == State::Lingering) {
        inbox_.release();
    }
    if (!accountBuffers()) {
        return;
    }
    if (next == State::Blocked && state_ != State::Blocked) {
        thread_.stats().slowReaders.add();
    }
    enter(next);
    if (next == State::Lingering) {
        // Closing with unread input would send a reset, which may overtake the last answer: close
        // our half, then read and forget what the client had already sent.
        socket_.endSending();
        lingeringSince_ = Clock::now();
    } else if (next == State::Yielding || (next == State::Speaking && output_.empty())) {
        askForTurn();
    }
}

void Connection::enter(State next) {
    assert(next == state_ || mayFollow(state_, next));
    state_ = next;
    socket_.watchReadable(isRead(next));
    socket_.watchWritable(isSent(next) && !output_.empty());
}

void Connection::askForTurn() {
    if (!queued_) {
        queued_ = true;
        thread_.resumeLater(*this);
    }
}

void Connection::resume() {
    queued_ = false;
    if (state_ == State::Yielding) {
        run(inbox_.view());
    } else if (state_ == State::Speaking) {
        speak();
    }
}

void Connection::pause(State why, std::chrono::milliseconds time) {
    enter(why);
    if (!pauseEvent_) {
        pauseEvent_ = makeEvent(thread_.base(), -1, 0, onPauseOver, this);
    }
    const timeval delay{static_cast<time_t>(time.count() / 1000),
                        static_cast<suseconds_t>(time.count() % 1000 * 1000)};
    event_add(pauseEvent_.get(), &delay);
    accountBuffers();
}

std::string_view Connection::overdue(Clock::time_point now) const {
    using std::chrono::seconds;
    const auto& settings = thread_.server().settings;
    const seconds patience(settings.idlePartialSeconds);
    if (state_ == State::Lingering) {
        return now - lingeringSince_ > kLingerTime ? "done" : "";
    }
    // Who can still say something may take its time with its answers.
    if (now - takenSince_ > patience &&
        (state_ == State::Draining || (state_ == State::Blocked && socket_.peerHasEnded()))) {
        return "its last answers were not read";
    }
    if (now - strangerSince_ > seconds(settings.loginSeconds)) {
        return "did not log in";
    }
    if (isServing(state_) && inbox_.underWay()) {
        if (now - inbox_.lastByte() > patience) {
            return "a request stopped half-way";
        }
        if (now - inbox_.firstByte() > seconds(settings.frameDeadlineSeconds)) {
            return "a request came too slowly";
        }
    }
    return {};
}

void Connection::sweep(Clock::time_point now) {
    if (session_.authenticated()) {
        strangerSince_ = now;
    }
    if (output_.empty() || output_.size() != unsentAtSweep_) {
        unsentAtSweep_ = output_.size();
        takenSince_ = now;
    }
    if (const auto why = overdue(now); !why.empty()) {
        if (!isLeaving(state_)) {
            log::info("connection {}: closed, {}", id(), why);
            thread_.stats().overdueCloses.add();
        }
        close();
        return;
    }
    if (Conversation* conversation = session_.conversation(); conversation && isServing(state_)) {
        if (!conversation->tick(now)) {
            close();
            return;
        }
        speak();
    }
}

size_t Connection::unsentLimit() const {
    const auto& settings = thread_.server().settings;
    return session_.authenticated()
                   ? settings.maxUnsentBytes
                   : std::min(settings.maxUnsentBytes, settings.maxBeforeLoginBytes);
}

bool Connection::accountBuffers() {
    const size_t held = inbox_.held() + output_.held();
    if (held == accounted_) {
        return true;
    }
    accounted_ = held;
    auto& server = thread_.server();
    bool mine = false;
    for (const auto& doomed :
         server.buffers.update({&thread_, id()}, held, server.settings.maxBufferedBytes)) {
        if (doomed.id == id()) {
            mine = true;
        } else {
            doomed.thread->closeHolderLater(doomed.id);
        }
    }
    if (mine) {
        closeAsLargestHolder();
    }
    return !mine;
}

void Connection::closeAsLargestHolder() {
    log::warn("connection {}: closed, it holds {} bytes and all connections too much", id(),
              accounted_);
    thread_.stats().bufferLimitCloses.add();
    close();
}

bool Connection::makeRoom() {
    if (!isStranger()) {
        return false;
    }
    thread_.server().rejectedConnections.fetch_add(1, std::memory_order_relaxed);
    close();
    return true;
}

void Connection::close() {
    thread_.remove(*this);
}

}  // namespace kv::server
