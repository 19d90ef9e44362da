#pragma once

// Serves the CPU clocks of processes of this host to load generators on others. See
// clock_protocol.h. One thread; who has not proved within seconds that it knows the password is
// closed, and neither input nor output of a client is ever more than a few bytes.

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "load/clock.h"
#include "load/cpu_clock.h"
#include "load/ensemble_options.h"
#include "load/socket.h"

namespace kv::load {

class ClockServer {
  public:
    static constexpr std::size_t kMaxClients = 256;
    static constexpr Nanos kProofTime = 5 * kSecond;

    /// Listens at once; port 0 takes any free one. Throws LoadError when it cannot listen, when a
    /// process is not running, or on an empty password.
    ClockServer(const Address& listen, std::string password, const std::vector<int>& pids);
    ~ClockServer();

    std::uint16_t port() const noexcept { return port_; }
    /// Serves until `stop` (a signalfd, an eventfd) is readable.
    void run(const Socket& stop);

  private:
    struct Process;
    struct Client;

    void acceptSome();
    /// False: the client is to be closed.
    bool hear(Client& client);
    bool answer(Client& client, std::uint32_t index);
    bool checkProof(Client& client);

    std::string password_;
    std::vector<Process> processes_;
    Socket listener_;
    std::uint16_t port_ = 0;
    std::list<Client> clients_;
};

}  // namespace kv::load
