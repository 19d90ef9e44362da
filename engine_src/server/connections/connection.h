// Connection: serves one client's socket: reads, runs the requests, sends the answers, and bounds
// the memory that it holds.
//
// Threads: lives on one front-end thread, which alone uses it. Ownership: owned by that thread; it
// owns its socket, session and buffers. While traffic flows freely it holds no buffers: bytes are
// read into the thread's buffer, answers are built in the thread's buffer and sent with one call.
// It holds bytes only for the front part of an incomplete request and for answers that the client
// has not taken. ServerContext::buffers counts both. Before login it may hold little, and only for
// a short time.
//
// Its activity at any time is its ConnectionState; connection_state.h has the diagram.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "server/commands/session.h"
#include "server/connections/connection_slot.h"
#include "server/connections/connection_state.h"
#include "server/connections/output.h"
#include "server/connections/pending_input.h"
#include "server/connections/watched_socket.h"

namespace kv::server {

class FrontEndThread;

class Connection {
  public:
    using Clock = PendingInput::Clock;

    /// Starts reading; speaks TLS if `tls` is given. Throws std::runtime_error if the event loop
    /// refuses.
    Connection(FrontEndThread& thread, Fd socket, ConnectionSlot slot, uint64_t id,
               const auth::TlsContext* tls = nullptr);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// Runs requests that were left over at the end of the last turn. The connection may be gone
    /// afterwards.
    void resume();
    /// Closes the connection if it has waited too long; called about once a second. The connection
    /// may be gone afterwards.
    void sweep(Clock::time_point now);
    /// Runs the waiting request again, or sends what the conversation has ready. The connection may
    /// be gone afterwards.
    void wake();
    /// Closes the connection, because all connections together hold too much memory and this one
    /// holds the most. The connection is gone afterwards.
    void closeAsLargestHolder();
    /// Closes the connection for the sake of another one unless its user has logged in. Returns
    /// true if it is gone.
    bool makeRoom();
    /// Sends what the socket takes at once; used when the server stops.
    void flushOnce();

    [[nodiscard]] uint64_t id() const { return session_.id(); }
    [[nodiscard]] const std::string& peer() const { return session_.peer().text; }
    [[nodiscard]] bool isUnauthenticated() const { return !session_.authenticated(); }
    /// Counts this connection in `count` until it logs in or ends. Returns false if it is counted,
    /// or has logged in.
    bool countAsUnauthenticated(std::atomic<uint32_t>& count) { return session_.awaitLogin(count); }

  private:
    using State = ConnectionState;

    static void onReadable(int, short, void* self);
    static void onWritable(int, short, void* self);
    static void onPauseOver(int, short, void* self);

    void readAndRun();
    /// Begins a step of the TLS handshake on another thread, or continues after it. The connection
    /// may be gone afterwards.
    void shakeHands();
    /// Reads into `to` and returns the number of bytes. 0 means that there is nothing to process:
    /// nothing came, or the stream has ended. The connection may be gone then.
    size_t receive(uint8_t* to, size_t room);
    /// Handles the end of the client's input: the connection ends when all answers are sent.
    void endOfInput();
    /// From now on only sends the rest of output_.
    void drain();
    /// Reads and runs large requests that follow each other, within the limits of a turn; their
    /// answers are sent together.
    void readLargeFrames();
    /// Reads the beginning of the request behind a large one into the thread's buffer, and returns
    /// its size.
    size_t receiveNextHead();
    /// Reads and discards the rest of a request that was refused as too long.
    void skipInput();
    /// Returns the number of bytes that the pending input and one read may have together.
    [[nodiscard]] size_t readLimit() const;
    /// Runs `input`, or the large request that has just been completed, and sends the answers.
    void run(protocol::Bytes input);
    /// As run(), but leaves the answers in the thread's output buffer. Returns false if they are
    /// already dealt with; the connection may be gone then.
    bool execute(protocol::Bytes input);
    /// Returns a large request that takes over the rest of `input`, if the rest is to be read that
    /// way.
    LargeRequest startLarge(protocol::Bytes input, const Progress& progress);
    /// Adds the frames that the conversation has ready to the thread's output buffer. Returns true
    /// if it has more.
    bool produce();
    /// Sends the thread's output buffer, and keeps what the socket does not take. This ends the
    /// turn.
    void sendBatch(bool moreToSay);
    /// Sends kept output, as much as a turn may send. Returns false if the connection is gone.
    bool send();
    /// Sends `most` bytes of it, or a little more.
    bool send(size_t most);
    /// Sends kept output after an event of the socket or a timer, then continues with what fits.
    void sendAndSettle();
    /// Enters the state that fits the remaining work. The connection may be gone afterwards.
    void settle(bool moreToSay);
    [[nodiscard]] State fitting(bool moreToSay) const;
    /// Changes the state and the events that the loop watches for it.
    void enter(State next);
    /// Enters `why` (Waiting or Penalised) for `time`.
    void pause(State why, std::chrono::milliseconds time);
    void askForTurn();
    /// Sends what the session's conversation has ready, if there is a conversation.
    void speak();
    /// Updates ServerContext::buffers. If all connections together hold too much, the largest are
    /// closed. Returns false if this one was closed.
    bool accountBuffers();
    /// Updates ServerContext::unsentValues. If unsent answers pin too much of the bucket, those of
    /// this connection are copied: otherwise clients that do not read would keep old versions, and
    /// the bucket would have no room for new ones.
    void accountPinned();
    /// Returns the size of unsent answers at which the client is no longer served.
    [[nodiscard]] size_t unsentLimit() const;
    /// Returns why the connection has to be closed now; empty if it need not be.
    [[nodiscard]] std::string_view overdue(Clock::time_point now) const;
    void close();

    const ConnectionSlot slot_;
    FrontEndThread& thread_;
    WatchedSocket socket_;
    std::shared_ptr<Handshake> handshake_;  ///< has the socket while the step runs
    Session session_;
    PendingInput pendingInput_;
    Output output_;             ///< answers that the socket has not taken
    size_t handshakeBytes_{0};  ///< that the TLS session may hold, besides those below
    size_t accounted_{0};       ///< bytes of pendingInput_ and output_ counted in the ledger
    size_t pinned_{0};          ///< bytes of output_ counted in ServerContext::unsentValues
    State state_{State::Reading};
    bool queued_{false};  ///< is in the thread's list, whatever its state is by now
    Clock::time_point unauthenticatedSince_{
            Clock::now()};  ///< the last time that it was seen logged in, if it needs that
    uint64_t taken_{0};     ///< bytes that the socket has taken in total
    uint64_t takenAtSweep_{0};
    Clock::time_point takenSince_{};  ///< the client has taken nothing of output_ since then
    Clock::time_point lingeringSince_{};
    std::chrono::milliseconds waitStep_{};  ///< the last wait of the current request
    EventPtr pauseEvent_;
};

}  // namespace kv::server
