// Connection: one client's socket: reads, runs the requests, sends the answers, and bounds what it
// holds meanwhile.
//
// Lives on one front-end thread and is touched by it only. While everything flows it owns no
// buffers: bytes are read into the thread's buffer, answers are built in the thread's buffer and
// sent with one call. It keeps bytes of its own only for the front part of a request that has not
// fully arrived, and for answers that the client has not taken; both are counted in
// ServerContext::bufferedBytes.
//
//   reading ──output over the limit──▶ blocked (not read, nothing executed) ──all sent──▶ reading
//   reading ──login failed──▶ paused (answers held back) ──timer──▶ reading
//   reading ──quit, bad stream──▶ closing (send the rest, half-close, discard input for a short
//   while) ──▶ gone
#pragma once

#include <chrono>
#include <cstdint>

#include "server/byte_buffer.h"
#include "server/event_ptr.h"
#include "server/request_loop.h"
#include "server/session.h"

namespace kv::server {

class FrontEndThread;

class Connection {
  public:
    using Clock = std::chrono::steady_clock;

    /// Starts reading. Throws std::runtime_error when the event loop refuses.
    Connection(FrontEndThread& thread, Fd socket, uint64_t id);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// Runs requests that were left over when the last turn was over. The connection may be gone
    /// afterwards.
    void resume();
    /// Called about once a second: closes what has waited too long. The connection may be gone
    /// afterwards.
    void sweep(Clock::time_point now);
    /// Sends what the session's conversation has to say, if it has one. The connection may be gone
    /// afterwards.
    void speak();
    /// Sends what is ready as far as the socket takes it; for the end of the server.
    void flushOnce() { send(); }

    [[nodiscard]] uint64_t id() const { return session_.id(); }

  private:
    enum class State : uint8_t { Open, Paused, Closing, Lingering };
    enum class Reading : uint8_t { Yes, No };

    static void onReadable(int, short, void* self);
    static void onWritable(int, short, void* self);
    static void onPauseOver(int, short, void* self);

    void readAndRun();
    /// Bytes read, 0 when there is nothing now; closes and returns -1 at the end of the stream.
    ssize_t receive(uint8_t* to, size_t room);
    void readLargeFrame();
    void run(protocol::Bytes input);
    /// Adds what the conversation has ready to the thread's output buffer.
    void produce();
    /// Keeps `rest`, which may lie inside input_, for later.
    void keepInput(protocol::Bytes rest);
    /// Sends the thread's output buffer; keeps what the socket does not take.
    void sendBatch();
    /// Sends kept output; false when the connection is gone.
    bool send();
    void afterSending();
    void pause();
    void startClosing();
    void discardInput();
    void setReading(Reading reading);
    void setWriting(bool on);
    /// Brings ServerContext::bufferedBytes up to date; closes when all connections together hold
    /// too much.
    bool accountBuffers();
    void close();

    FrontEndThread& thread_;
    Fd socket_;
    Session session_;
    ByteBuffer input_;     ///< front part of an incomplete request, or requests of a later turn
    ByteBuffer output_;    ///< answers the socket has not taken
    size_t wanted_{0};     ///< size input_ must reach before it is worth parsing again
    size_t accounted_{0};  ///< bytes of input_ and output_ counted in bufferedBytes
    State state_{State::Open};
    bool reading_{false};
    bool writing_{false};
    bool blocked_{false};    ///< the client has not taken what it was sent
    bool moreToSay_{false};  ///< the conversation stopped at its limit
    bool queued_{false};     ///< waits in the thread's list of connections with requests left over
    Clock::time_point since_{};  ///< last byte of a partial request, or start of the closing
    EventPtr readEvent_;
    EventPtr writeEvent_;
    EventPtr pauseEvent_;
};

}  // namespace kv::server
