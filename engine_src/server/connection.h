// Connection: one client's socket: reads, runs the requests, sends the answers, and bounds what it
// holds meanwhile.
//
// Lives on one front-end thread and is touched by it only. While everything flows it owns no
// buffers: bytes are read into the thread's buffer, answers are built in the thread's buffer and
// sent with one call. It keeps bytes of its own only for the front part of a request that has not
// fully arrived, and for answers that the client has not taken; both are counted in
// ServerContext::buffers. Before login it may hold little, and not for long.
//
// What it does at any time is its ConnectionState; connection_state.h has the diagram.
#pragma once

#include <chrono>
#include <cstdint>

#include "server/connection_slot.h"
#include "server/connection_state.h"
#include "server/inbox.h"
#include "server/output.h"
#include "server/session.h"
#include "server/watched_socket.h"

namespace kv::server {

class FrontEndThread;

class Connection {
  public:
    using Clock = Inbox::Clock;

    /// Starts reading. Throws std::runtime_error when the event loop refuses.
    Connection(FrontEndThread& thread, Fd socket, ConnectionSlot slot, uint64_t id);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// Runs requests that were left over when the last turn was over. The connection may be gone
    /// afterwards.
    void resume();
    /// Called about once a second: closes what has waited too long. The connection may be gone
    /// afterwards.
    void sweep(Clock::time_point now);
    /// What it waited for has come, or its conversation has something to say. The connection may be
    /// gone afterwards.
    void wake();
    /// All connections together hold too much, this one the most. The connection is gone
    /// afterwards.
    void closeAsLargestHolder();
    /// Another connection needs its place: closes it unless its user has logged in. True when it
    /// is gone.
    bool makeRoom();
    /// Sends what is ready as far as the socket takes it; for the end of the server.
    void flushOnce() { send(); }

    [[nodiscard]] uint64_t id() const { return session_.id(); }
    [[nodiscard]] bool isStranger() const { return !session_.authenticated(); }

  private:
    using State = ConnectionState;

    static void onReadable(int, short, void* self);
    static void onWritable(int, short, void* self);
    static void onPauseOver(int, short, void* self);

    void readAndRun();
    /// Bytes read, 0 when there is nothing to go on with: nothing came, or the stream has ended.
    /// The connection may be gone then.
    size_t receive(uint8_t* to, size_t room);
    /// The client sends no more: the connection ends, when all answers are sent.
    void endOfInput();
    /// Only what is left in output_ is sent from now on.
    void drain();
    /// Reads on, as far as a turn goes, while one large request follows the other; their answers
    /// leave together.
    void readLargeFrames();
    /// Reads the beginning of the request behind a large one into the thread's buffer; its size.
    size_t receiveNextHead();
    /// Reads what is left of a request that was refused as too long, and forgets it.
    void skipInput();
    /// Bytes that the inbox and one read may have together.
    [[nodiscard]] size_t readLimit() const;
    /// Runs `input`, or the large request that has just become complete, and sends the answers.
    void run(protocol::Bytes input);
    /// The same without sending: the answers are in the thread's output buffer. False when they are
    /// taken care of, and the connection may be gone.
    bool execute(protocol::Bytes input);
    /// What `progress` left of `input`, where that is to be read as a large request.
    LargeRequest startLarge(protocol::Bytes input, const Progress& progress);
    /// Adds what the conversation has ready to the thread's output buffer; true when it has more.
    bool produce();
    /// Sends the thread's output buffer; keeps what the socket does not take. The turn is over.
    void sendBatch(bool moreToSay);
    /// Sends kept output; false when the connection is gone.
    bool send();
    /// Sends kept output after the socket or a timer said so, and goes on.
    void sendAndSettle();
    /// Enters the state that fits what is left to do. The connection may be gone afterwards.
    void settle(bool moreToSay);
    [[nodiscard]] State fitting(bool moreToSay) const;
    /// Changes the state and what the event loop watches for it.
    void enter(State next);
    /// Enters `why`, Waiting or Penalised, for a while.
    void pause(State why, std::chrono::milliseconds time);
    void askForTurn();
    /// Sends what the session's conversation has to say, if it has one.
    void speak();
    /// Brings ServerContext::buffers up to date; when all connections together hold too much the
    /// largest are closed. False when this one was.
    bool accountBuffers();
    /// Unsent answers with which the client is not served any more.
    [[nodiscard]] size_t unsentLimit() const;
    /// Why the connection has to be closed now; empty: it has not.
    [[nodiscard]] std::string_view overdue(Clock::time_point now) const;
    void close();

    const ConnectionSlot slot_;
    FrontEndThread& thread_;
    WatchedSocket socket_;
    Session session_;
    Inbox inbox_;
    Output output_;        ///< answers the socket has not taken
    size_t accounted_{0};  ///< bytes of inbox_ and output_ counted in the ledger
    State state_{State::Reading};
    bool queued_{false};  ///< has a place in the thread's list, whatever state it is in by now
    Clock::time_point strangerSince_{Clock::now()};  ///< last time it was seen logged in
    size_t unsentAtSweep_{0};
    Clock::time_point takenSince_{};  ///< its client has taken nothing of output_ since
    Clock::time_point lingeringSince_{};
    std::chrono::milliseconds waitStep_{};  ///< the last one of the request that waits
    EventPtr pauseEvent_;
};

}  // namespace kv::server
