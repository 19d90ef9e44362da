#include "server/connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/front_end_thread.h"

namespace kv::server {

namespace {

/// A large request's buffer grows in steps of what has really arrived, not to what its header
/// announces.
constexpr size_t kLargeFrameStep = 256 << 10;
/// Reads of one large request before others have their turn.
constexpr int kLargeFrameReads = 4;
/// Kept for the next time when a connection's own buffers run empty.
constexpr size_t kKeepCapacity = 4 << 10;
/// Between two looks at what a request waits for.
constexpr auto kWaitStep = std::chrono::milliseconds(5);
constexpr auto kLingerTime = std::chrono::seconds(2);

}  // namespace

Connection::Connection(FrontEndThread& thread, Fd socket, uint64_t id)
    : thread_(thread),
      socket_(thread.base(), std::move(socket), onReadable, onWritable, this),
      session_(id, thread.server().users != nullptr) {
    session_.waker()->connect([&thread, id] { thread.speakLater(id); });
    socket_.watchReadable(true);
}

Connection::~Connection() {
    session_.disconnectWaker();
    thread_.server().buffers.remove(id());
    thread_.server().connections.fetch_sub(1, std::memory_order_relaxed);
}

void Connection::onReadable(int, short, void* self) {
    static_cast<Connection*>(self)->readAndRun();
}

void Connection::onWritable(int, short, void* self) {
    auto* connection = static_cast<Connection*>(self);
    if (connection->send()) {
        connection->afterSending();
    }
}

void Connection::onPauseOver(int, short, void* self) {
    auto* connection = static_cast<Connection*>(self);
    connection->state_ = State::Open;
    if (connection->send()) {
        connection->afterSending();
    }
}

void Connection::readAndRun() {
    thread_.stats().wakeups.add();
    if (state_ != State::Open) {
        discardInput();
        return;
    }
    if (inbox_.toSkip() != 0) {
        skipInput();
        return;
    }
    if (inbox_.wanted() > thread_.readBufferSize()) {
        readLargeFrame();
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
    const size_t room = thread_.readBufferSize();
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
        close();
        return 0;
    }
    thread_.stats().bytesRead.add(*count);
    return *count;
}

void Connection::readLargeFrame() {
    for (int reads = 0; reads < kLargeFrameReads; ++reads) {
        if (!inbox_.readsLarge()) {
            if (auto large = LargeRequest::start(thread_.server(), session_, inbox_.view())) {
                inbox_.readInto(std::move(large));
            }
        }
        const size_t room = std::min(inbox_.missing(), kLargeFrameStep);
        const auto count = socket_.receive(inbox_.reserve(room), room);
        if (!count) {
            close();
            return;
        }
        thread_.stats().bytesRead.add(*count);
        if (*count != 0 && inbox_.commit(*count, Clock::now())) {
            run(inbox_.view());
            return;
        }
        if (*count < room) {
            break;
        }
    }
    accountBuffers();
}

void Connection::run(protocol::Bytes input) {
    auto& server = thread_.server();
    CommandContext context{server, session_, thread_.output(), thread_.stats(), OpTime::now()};
    const size_t limit = unsentLimit();
    const size_t room = limit - std::min(limit, output_.size());
    Progress progress;
    bool waiting = false;
    try {
        if (inbox_.readsLarge()) {
            progress = runLarge(context, inbox_.takeLarge());
            inbox_.keep({}, progress, Clock::now());
        } else {
            progress = runRequests(context, input, {server.settings.maxRequestsPerTurn, room});
            inbox_.keep(input, progress, Clock::now(), startLarge(input, progress));
        }
    } catch (const std::exception& error) {
        // One client's request that cannot be served (no memory for its answer) must not end the
        // others'.
        spdlog::error("connection {}: closed: {}", id(), error.what());
        progress.stop = Stop::Close;
    }
    switch (progress.stop) {
        case Stop::Close:
            thread_.output().clear();
            close();
            return;
        case Stop::CloseFlushed:
            state_ = State::Closing;
            since_ = Clock::now();
            break;
        case Stop::Penalty:
            output_.take(thread_.output());
            pause(std::chrono::milliseconds(server.settings.authDelayMillis));
            return;
        case Stop::Waiting:
            waiting = true;
            break;
        case Stop::TurnOver:
            thread_.stats().yields.add();
            break;
        case Stop::NeedInput:
        case Stop::OutputFull:
            break;
    }
    produce();
    if (waiting) {
        // The answers so far leave with the pause's end at the latest.
        output_.take(thread_.output());
        if (send()) {
            pause(kWaitStep);
        }
        return;
    }
    sendBatch();
}

LargeRequest Connection::startLarge(protocol::Bytes input, const Progress& progress) {
    if (progress.stop != Stop::NeedInput || progress.wanted <= thread_.readBufferSize())
            [[likely]] {
        return {};
    }
    return LargeRequest::start(thread_.server(), session_, input.subspan(progress.consumed));
}

void Connection::produce() {
    moreToSay_ = false;
    if (Conversation* conversation = session_.conversation();
        conversation && state_ == State::Open) {
        // Messages are copied, so less than one turn of requests may answer; a client that is
        // behind gets no more before it has read.
        const size_t limit = thread_.server().settings.maxUnsentBytes / 16;
        moreToSay_ = output_.size() >= limit ||
                     conversation->produce(thread_.output(), limit - output_.size());
    }
}

void Connection::speak() {
    if (state_ == State::Open && session_.conversation() != nullptr) {
        produce();
        sendBatch();
    }
}

void Connection::sendBatch() {
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
    afterSending();
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

void Connection::afterSending() {
    if (state_ == State::Closing && output_.empty()) {
        startClosing();
        return;
    }
    if (!accountBuffers()) {
        return;
    }
    socket_.watchWritable(!output_.empty());
    if (state_ != State::Open) {
        socket_.watchReadable(false);
        return;
    }
    // A client that does not read is not served until it has taken everything: its memory stays
    // bounded.
    const bool blocked = output_.size() >= unsentLimit();
    if (blocked && !blocked_) {
        thread_.stats().slowReaders.add();
    }
    blocked_ = blocked;
    const bool leftOver = inbox_.hasRequests();
    socket_.watchReadable(!blocked && !leftOver);
    // A conversation goes on when the client has taken what was said.
    const bool speaks = moreToSay_ && output_.empty();
    if (((leftOver && !blocked) || speaks) && !queued_) {
        queued_ = true;
        thread_.resumeLater(*this);
    }
}

void Connection::resume() {
    queued_ = false;
    if (state_ == State::Open && inbox_.hasRequests() && output_.size() < unsentLimit()) {
        run(inbox_.view());
    } else if (moreToSay_) {
        speak();
    }
}

void Connection::pause(std::chrono::milliseconds time) {
    state_ = State::Paused;
    socket_.watchReadable(false);
    socket_.watchWritable(false);
    if (!pauseEvent_) {
        pauseEvent_ = makeEvent(thread_.base(), -1, 0, onPauseOver, this);
    }
    const timeval delay{static_cast<time_t>(time.count() / 1000),
                        static_cast<suseconds_t>(time.count() % 1000 * 1000)};
    event_add(pauseEvent_.get(), &delay);
    accountBuffers();
}

void Connection::startClosing() {
    // Closing with unread input would send a reset, which may overtake the last answer: close our
    // half, then read and forget what the client had already sent.
    socket_.watchWritable(false);
    inbox_.release();
    if (!accountBuffers()) {
        return;
    }
    socket_.endSending();
    state_ = State::Lingering;
    since_ = Clock::now();
    socket_.watchReadable(true);
}

void Connection::discardInput() {
    if (state_ == State::Lingering) {
        receive(thread_.readBuffer(), thread_.readBufferSize());
    }
}

std::string_view Connection::overdue(Clock::time_point now) const {
    using std::chrono::seconds;
    const auto& settings = thread_.server().settings;
    const seconds patience(settings.idlePartialSeconds);
    if (state_ == State::Closing) {
        return now - since_ > patience ? "its last answers were not read" : "";
    }
    if (state_ == State::Lingering) {
        return now - since_ > kLingerTime ? "done" : "";
    }
    if (now - strangerSince_ > seconds(settings.loginSeconds)) {
        return "did not log in";
    }
    if (state_ == State::Open && inbox_.underWay()) {
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
    if (const auto why = overdue(now); !why.empty()) {
        if (state_ == State::Open || state_ == State::Paused) {
            spdlog::info("connection {}: closed, {}", id(), why);
            thread_.stats().overdueCloses.add();
        }
        close();
        return;
    }
    if (Conversation* conversation = session_.conversation();
        conversation && state_ == State::Open) {
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
    spdlog::warn("connection {}: closed, it holds {} bytes and all connections too much", id(),
                 accounted_);
    thread_.stats().bufferLimitCloses.add();
    close();
}

void Connection::close() {
    thread_.remove(*this);
}

}  // namespace kv::server
