// FrontEndThread: one event loop with its connections and the two buffers they share.
//
// post() and adopt() may be called from any thread; everything else runs on the loop's own thread.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/connection.h"
#include "server/connection_slot.h"
#include "server/event_ptr.h"
#include "server/front_end_stats.h"
#include "server/output.h"
#include "server/server_context.h"

namespace kv::server {

class FrontEndThread {
  public:
    FrontEndThread(ServerContext& server, size_t index);
    FrontEndThread(const FrontEndThread&) = delete;
    FrontEndThread& operator=(const FrontEndThread&) = delete;
    /// Stops the loop if it still runs.
    ~FrontEndThread();

    void start();
    /// Sends what the sockets take at once, closes all connections, joins.
    void stop();

    /// Runs `task` on the loop's thread, soon. After stop() it is dropped.
    void post(std::function<void()> task);
    /// Gives the thread a connected, non-blocking socket; later ones have greater ids. `crowded`:
    /// there are more than there may be. Then the connection of the thread that has waited longest
    /// without a login makes room, and where there is none the new one is closed.
    void adopt(Fd socket, ConnectionSlot slot, uint64_t id, bool crowded);

    // --- for connections
    ServerContext& server() { return server_; }
    FrontEndStats& stats() { return stats_; }
    event_base* base() { return base_.get(); }
    Output& output() { return output_; }
    uint8_t* readBuffer() { return readBuffer_.data(); }
    [[nodiscard]] size_t readBufferSize() const { return readBuffer_.size(); }
    /// An error in a connection's turn ends that connection and no other.
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
    /// Closes the connection, soon, because it holds too much; from any thread. Where memory is
    /// lacking it stays for now.
    void closeHolderLater(uint64_t id) noexcept;
    /// Calls connection.wake(), soon; from any thread, does nothing when it is gone by then. Where
    /// memory is lacking the sweep does it.
    void wakeLater(uint64_t id) noexcept;

  private:
    static void onWake(int, short, void* self);
    static void onResume(int, short, void* self);
    static void onSweep(int, short, void* self);
    void runPosted();
    void resumeAll();
    void sweepAll();
    /// The same as above for a connection that may be gone.
    template <class Turn>
    void takeTurn(uint64_t id, Turn turn) {
        if (const auto found = connections_.find(id); found != connections_.end()) {
            takeTurn(*found->second, turn);
        }
    }
    void endAfter(uint64_t id, const std::exception& error);
    bool closeOldestStranger();
    [[nodiscard]] bool isStranger(uint64_t id) const;

    ServerContext& server_;
    size_t index_;
    FrontEndStats stats_;
    EventBasePtr base_;
    Fd wakeFd_;
    EventPtr wakeEvent_;
    EventPtr resumeEvent_;
    EventPtr sweepEvent_;
    std::vector<uint8_t> readBuffer_;
    Output output_;  ///< answers of the wake-up at work; empty between two of them
    std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
    /// Ascending; those that have logged in or are gone are dropped by the next sweep.
    std::deque<uint64_t> strangers_;
    std::vector<uint64_t> toResume_;
    std::thread thread_;

    std::mutex mutex_;  ///< guards posted_ and stopped_
    std::vector<std::function<void()>> posted_;
    bool stopped_{false};
};

}  // namespace kv::server
