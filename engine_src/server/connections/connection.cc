#include "server/connections/connection.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/connections/front_end_thread.h"

namespace kv::server {

namespace {

/// The buffer of a large request grows in steps of the bytes that have arrived, not to the size
/// that its header announces.
constexpr size_t kLargeFrameStep = 256 << 10;
/// Bytes of large requests that are read before other connections are served.
constexpr size_t kLargeTurn = 1 << 20;
/// Bytes of answers, and at most one answer more, before other connections are served.
constexpr size_t kAnswersOfTurn = 512 << 10;
/// Bytes that are sent before other connections are served; one send may exceed it.
constexpr size_t kSentOfTurn = 256 << 10;
/// Bytes to read where a large request is expected: its header and key, and little of its value,
/// which would have to be copied.
constexpr size_t kHeadRead = 4 << 10;
/// Capacity that a connection keeps when its own buffers run empty.
constexpr size_t kKeepCapacity = 4 << 10;
/// Time between two attempts at a waiting request. It doubles with each attempt: long waits cost
/// little, and short waits end soon.
constexpr auto kFirstWaitStep = std::chrono::milliseconds(5);
constexpr auto kLastWaitStep = std::chrono::milliseconds(80);
/// Memory of a TLS session that has part of a handshake: OpenSSL takes a first message of up to
/// 128 KiB, and allocates what it announces.
constexpr size_t kHandshakeBytes = 150 << 10;
/// Time after which a step of a TLS handshake is looked at, if memory was too short to report its
/// end.
constexpr auto kHandshakeStep = std::chrono::milliseconds(1000);

WatchedSocket& secured(WatchedSocket& socket, const auth::TlsContext* tls) {
    if (tls != nullptr) {
        socket.secure(*tls);
    }
    return socket;
}

}  // namespace

Connection::Connection(FrontEndThread& thread, Fd socket, ConnectionSlot slot, uint64_t id,
                       const auth::TlsContext* tls)
    : slot_(std::move(slot)),
      thread_(thread),
      socket_(thread.base(), std::move(socket), onReadable, onWritable, this),
      session_(id, thread.server().users != nullptr, secured(socket_, tls).peer()) {
    session_.waker()->connect([&thread, id] { thread.wakeLater(id); });
    socket_.watchReadable(true);
}

Connection::~Connection() {
    session_.disconnectWaker();
    if (handshake_) {
        handshake_->abandon();
    }
    thread_.server().buffers.remove(id());
    thread_.server().unsentValues.fetch_sub(pinned_, std::memory_order_relaxed);
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
    if (socket_.inHandshake()) [[unlikely]] {
        shakeHands();
        return;
    }
    if (state_ == State::Lingering) {
        receive(thread_.readBuffer(), thread_.readBufferSize());
        return;
    }
    if (pendingInput_.toSkip() != 0) {
        skipInput();
        return;
    }
    if (pendingInput_.wanted() > thread_.readBufferSize()) {
        readLargeFrames();
        return;
    }
    // The kept front part is put before the new bytes, so that the loop sees one piece.
    uint8_t* buffer = thread_.readBuffer();
    const size_t kept = pendingInput_.copyTo(buffer);
    if (const size_t count = receive(buffer + kept, readLimit() - kept)) {
        pendingInput_.forgetCopied();
        run({buffer, kept + count});
    }
}

void Connection::shakeHands() {
    if (!handshake_) {
        pause(State::Waiting, kHandshakeStep);
        handshake_ = socket_.beginStep(session_.waker());
        thread_.server().handshakes->ask(handshake_, session_.peer().text);
    } else if (!handshake_->done()) {
        pause(State::Waiting, kHandshakeStep);
    } else if (const auto progress = socket_.endStep(*std::exchange(handshake_, nullptr))) {
        handshakeBytes_ = progress == Handshake::Progress::Done ? 0 : kHandshakeBytes;
        enter(State::Reading);
        socket_.watchWritable(progress == Handshake::Progress::WantsOutput);
        accountBuffers();
    } else {
        close();
    }
}

size_t Connection::readLimit() const {
    const size_t all = thread_.readBufferSize();
    const size_t room = pendingInput_.expectsLarge() ? std::min(kHeadRead, all) : all;
    // The rest of a read is kept, so little is read before login. A request that is awaited fits.
    const size_t little = protocol::kHeaderSize + thread_.server().settings.maxBeforeLoginBytes;
    return session_.authenticated() ? room
                                    : std::min(room, std::max(little, pendingInput_.wanted()));
}

void Connection::skipInput() {
    const size_t room = std::min(pendingInput_.toSkip(), thread_.readBufferSize());
    if (const size_t count = receive(thread_.readBuffer(), room)) {
        pendingInput_.skipped(count, Clock::now());
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
    // Only sending can show whether the client closed its half or is gone altogether.
    if (isLeaving(state_) || output_.empty()) {
        close();
        return;
    }
    drain();
    pendingInput_.release();
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
        if (!pendingInput_.readsLarge()) {
            if (auto large =
                        LargeRequest::start(thread_.server(), session_, pendingInput_.view())) {
                pendingInput_.readInto(std::move(large));
            }
        }
        const size_t step = pendingInput_.readsLarge() ? left : std::min(left, kLargeFrameStep);
        const size_t room = std::min(pendingInput_.missing(), step);
        const auto count = socket_.receive(pendingInput_.reserve(room), room);
        if (!count && !ran) {
            endOfInput();
            return;
        }
        // If answers wait, they are sent first; the end of the stream will be met again.
        const size_t came = count.value_or(0);
        thread_.stats().bytesRead.add(came);
        left -= came;
        if (came == 0 || !pendingInput_.commit(came, Clock::now())) {
            if (came < room) {
                break;
            }
            continue;
        }
        if (!execute(pendingInput_.view())) {
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
        if (!pendingInput_.readsLarge()) {
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
    if (!isServing(state_) || !pendingInput_.expectsLarge()) {
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
    const size_t room = std::min(kAnswersOfTurn, limit - std::min(limit, output_.size()));
    Progress progress;
    if (pendingInput_.readsLarge()) {
        progress = runLarge(context, pendingInput_.takeLarge());
        pendingInput_.keep({}, progress, Clock::now());
        pendingInput_.expectLarge();
    } else {
        progress = runRequests(context, input, {server.settings.maxRequestsPerTurn, room});
        pendingInput_.keep(input, progress, Clock::now(), startLarge(input, progress));
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
            // The answers so far are sent at the end of the pause at the latest.
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
    // Messages are copied, so the limit is below that of one turn of requests. A client that lags
    // behind gets no more before it has read.
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
        taken_ += *sent;
        batch.consume(*sent);
    }
    output_.take(batch);
    batch.releaseAbove(thread_.server().settings.maxUnsentBytes / 2);
    settle(moreToSay);
}

void Connection::flushOnce() {
    send(output_.size());
}

bool Connection::send() {
    return send(kSentOfTurn);
}

bool Connection::send(size_t most) {
    for (const uint64_t end = taken_ + most; !output_.empty() && taken_ < end;) {
        const auto sent = socket_.send(output_);
        if (!sent) {
            close();
            return false;
        }
        if (*sent == 0) {
            break;
        }
        thread_.stats().bytesWritten.add(*sent);
        taken_ += *sent;
        output_.consume(*sent);
    }
    output_.releaseAbove(kKeepCapacity);
    return true;
}

void Connection::sendAndSettle() {
    if (socket_.inHandshake()) [[unlikely]] {
        shakeHands();
    } else if (send()) {
        // In the state Reading the conversation has nothing to send until it wakes us. In other
        // states it has to be asked.
        settle(state_ != State::Reading && session_.conversation() != nullptr);
    }
}

Connection::State Connection::fitting(bool moreToSay) const {
    if (state_ == State::Draining) {
        return output_.empty() ? State::Lingering : State::Draining;
    }
    // A client that does not read is not served, so its memory stays bounded.
    if (output_.size() >= unsentLimit()) {
        return State::Blocked;
    }
    if (pendingInput_.hasRequests()) {
        return State::Yielding;
    }
    return moreToSay ? State::Speaking : State::Reading;
}

void Connection::settle(bool moreToSay) {
    const State next = fitting(moreToSay);
    if (next == State::Lingering) {
        pendingInput_.release();
    }
    if (!accountBuffers()) {
        return;
    }
    if (next == State::Blocked && state_ != State::Blocked) {
        thread_.stats().slowReaders.add();
    }
    enter(next);
    if (next == State::Lingering) {
        // Closing with unread input would send a reset, which may overtake the last answer. So
        // close our half, then read and discard the rest of the client's input.
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
        run(pendingInput_.view());
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

void Connection::close() {
    thread_.remove(*this);
}

}  // namespace kv::server
