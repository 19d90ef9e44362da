#pragma once

// ClockServer: serves the CPU clocks of processes of this host to load generators on others. See
// clock_protocol.h.
//
// Threads: one. A client that does not prove within seconds that it knows the password is closed,
// and makes room for another one before that.
// Input and output of a client are never more than a few bytes.

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "load/core/clock.h"
#include "load/core/socket.h"

namespace kv::load {

class ClockServer {
  public:
    static constexpr std::size_t kMaxClients = 256;
    static constexpr Nanos kProofTime = 5 * kSecond;

    /// Listens at once; port 0 takes any free one. Throws LoadError if it cannot listen, if a
    /// process is not running, or if the password is empty.
    ClockServer(const Address& listen, std::string password, const std::vector<int>& pids);
    ~ClockServer();

    std::uint16_t port() const noexcept { return port_; }
    /// Serves until `stop` (a signalfd, an eventfd) is readable.
    void run(const Socket& stop);

  private:
    struct Process;
    struct Client;

    void acceptSome();
    /// Returns the oldest client that has not proved that it knows the password.
    std::list<Client>::iterator oldestStranger();
    /// Returns false if the client is to be closed.
    bool handleInput(Client& client);
    bool checkProof(Client& client);
    /// Returns the times of all processes: the answer to a question.
    std::string times();

    std::string password_;
    std::vector<Process> processes_;
    Socket listener_;
    std::uint16_t port_ = 0;
    std::list<Client> clients_;
};

}  // namespace kv::load
