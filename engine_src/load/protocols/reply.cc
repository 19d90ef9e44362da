#include "load/protocols/reply.h"

#include <array>

#include "load/core/load_error.h"

namespace kv::load {

namespace {

struct Advice {
    std::string_view sign;
    std::string_view text;
};

constexpr std::array kAdvice{
        Advice{"max number of clients", "raise the server's maxclients"},
        Advice{"Too many open connections", "raise the server's limit of connections (-c)"},
        Advice{"NOAUTH", "give the password by --password-file or --password-env"},
        Advice{"unauthenticated",
               "give --user, and the password by --password-file or --password-env"},
        Advice{"WRONGPASS", "the user or the password is wrong"},
        Advice{"invalid password", "the password is wrong"},
        Advice{"authentication failure", "the user or the password is wrong"},
        Advice{"NOPERM", "the user needs the right to read and write all keys"},
        Advice{"DENIED", "the server is in protected mode: set a password, or protected-mode no"},
        Advice{"LOADING", "the server is still loading its data set: start the load later"},
        Advice{"MOVED", "give a server that is not part of a Redis cluster"},
        Advice{"ASK ", "give a server that is not part of a Redis cluster"},
        Advice{"NOREPLICAS", "start the server without min-replicas-to-write"},
        Advice{"CLUSTERDOWN", "give a server that is not part of a Redis cluster"},
        Advice{"MISCONF",
               "the server cannot save its data set: mend that, or start it with "
               "--save '' and without an append-only file"},
        Advice{"READONLY", "the server is a replica: give the primary"},
};

}  // namespace

std::string printable(std::string_view line) {
    constexpr std::size_t kLongest = 200;
    std::string text(line.substr(0, kLongest));
    for (auto& byte : text) {
        if (byte < ' ' || byte > '~') {
            byte = '?';
        }
    }
    return line.size() > kLongest ? text + "..." : text;
}

void refuseLine(std::string_view line) {
    std::string message = "the server answered '" + printable(line) + "'";
    for (const auto& [sign, text] : kAdvice) {
        if (line.find(sign) != std::string_view::npos) {
            throw LoadError(message + ": " + std::string(text));
        }
    }
    throw LoadError(message);
}

void refuseBytes(std::string_view bytes, std::string_view protocol) {
    throw LoadError("the server sent '" +
                    printable(bytes.substr(0, bytes.find_first_of("\r\n", 1))) +
                    "', which is not an answer of the " + std::string(protocol) + " protocol");
}

}  // namespace kv::load
