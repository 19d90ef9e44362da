// FrontEndThread: one event loop with its connections and the two buffers they share.
//
// post() and adopt() may be called from any thread; everything else runs on the loop's own thread.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/connections/connection.h"
#include "server/connections/connection_slot.h"
#include "server/connections/output.h"
#include "server/event_ptr.h"
#include "server/server_context.h"
#include "server/stats/front_end_stats.h"
#include "types/fd.h"

namespace kv::server {

/// How many connections there are, compared with those allowed.
enum class Crowd : uint8_t { None, ReserveOnly, Full };

class FrontEndThread {
  public:
    FrontEndThread(ServerContext& server, size_t index);
    FrontEndThread(const FrontEndThread&) = delete;
    FrontEndThread& operator=(const FrontEndThread&) = delete;
    /// Stops the loop if it is still running.
    ~FrontEndThread();

    void start();
    /// Sends what the sockets take at once, closes all connections, and joins the thread.
    void stop();

    /// Runs `task` soon on the loop's thread. After stop() the task is dropped.
    void post(std::function<void()> task);
    /// Takes over a connected, non-blocking socket. Later sockets have greater ids. If there are
    /// more connections than allowed, this thread closes one without a login, the oldest of the
    /// address that has most of them, or if there is none and the reserve is used up, the new one.
    void adopt(Fd socket, ConnectionSlot slot, uint64_t id, Crowd crowd,
               const auth::TlsContext* tls);
    /// Number of connections that have yet to log in. Any thread.
    [[nodiscard]] uint32_t unauthenticated() const {
        return unauthenticatedCount_.load(std::memory_order_relaxed);
    }

    // --- for connections
    ServerContext& server() { return server_; }
    FrontEndStats& stats() { return stats_; }
    event_base* base() { return base_.get(); }
    Output& output() { return output_; }
    uint8_t* readBuffer() { return readBuffer_.data(); }
    [[nodiscard]] size_t readBufferSize() const { return readBuffer_.size(); }
    /// Runs a connection's turn; an error in it ends that connection and no other.
    template <class Turn>
    void takeTurn(Connection& connection, Turn turn) {
        const uint64_t id = connection.id();
        try {
            turn(connection);
        } catch (const std::exception& error) {
            endAfter(id, error);
        }
    }
    /// Calls connection.resume() after other connections had their turn.
    void resumeLater(Connection& connection);
    void remove(Connection& connection);
    /// Closes the connection soon, because it holds too much. Any thread. If memory is short, it
    /// stays for now.
    void closeHolderLater(uint64_t id) noexcept;
    /// Calls connection.wake() soon. Any thread. Does nothing if the connection is gone by then. If
    /// memory is short, the sweep wakes it instead.
    void wakeLater(uint64_t id) noexcept;

  private:
    static void onWake(int, short, void* self);
    static void onResume(int, short, void* self);
    static void onSweep(int, short, void* self);
    void runPosted();
    void resumeAll();
    void sweepAll();
    /// As above, for a connection that may be gone.
    template <class Turn>
    void takeTurn(uint64_t id, Turn turn) {
        if (const auto found = connections_.find(id); found != connections_.end()) {
            takeTurn(*found->second, turn);
        }
    }
    void endAfter(uint64_t id, const std::exception& error);
    bool closeUnauthenticated();
    void listIfUnauthenticated(Connection& connection);
    [[nodiscard]] bool isUnauthenticated(uint64_t id) const;

    ServerContext& server_;
    size_t index_;
    FrontEndStats stats_;
    EventBasePtr base_;
    Fd wakeFd_;
    EventPtr wakeEvent_;
    EventPtr resumeEvent_;
    EventPtr sweepEvent_;
    std::vector<uint8_t> readBuffer_;
    Output output_;  ///< answers of the current wake-up; empty between wake-ups
    std::atomic<uint32_t> unauthenticatedCount_{0};
    std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
    /// Ids by address, oldest first, at least one each; the next sweep drops those that have logged
    /// in or are gone.
    std::unordered_map<std::string, std::deque<uint64_t>> unauthenticated_;
    std::vector<uint64_t> toResume_;
    std::thread thread_;

    std::mutex mutex_;  ///< guards posted_ and stopped_
    std::vector<std::function<void()>> posted_;
    bool stopped_{false};
};

}  // namespace kv::server
