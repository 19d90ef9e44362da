#include "load/protocols/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "load/core/load_error.h"
#include "load/protocols/line_reader.h"
#include "load/protocols/reply.h"
#include "protocol/frame.h"

namespace kv::load {

namespace {

constexpr std::size_t kLargestGreeting = 65536;

/// Sends one request at a time to a server whose answers are lines.
class LineClient {
  public:
    LineClient(Socket socket, std::chrono::milliseconds timeout)
        : socket_(std::move(socket)), timeout_(timeout) {}

    void send(std::string_view text) {
        try {
            sendAll(socket_, protocol::asBytes(text), timeout_);
        } catch (const LoadError&) {
            if (!readSome()) {
                throw;
            }  // the server has sent the reason before it closed the connection
        }
    }

    /// Returns the next line, without its end.
    std::string line() {
        for (;;) {
            const auto end = buffer_.find('\n');
            if (end != std::string::npos) {
                std::string text = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                if (text.ends_with('\r')) {
                    text.pop_back();
                }
                return text;
            }
            receive();
        }
    }

    std::string ask(std::string_view text) {
        send(text);
        return line();
    }

    /// Skips `size` bytes.
    void skip(std::size_t size) {
        while (buffer_.size() < size) {
            receive();
        }
        buffer_.erase(0, size);
    }

    /// Returns the first bytes that come; empty if the server closes the connection or sends
    /// nothing.
    std::string firstBytes() {
        try {
            receive();
        } catch (const LoadError&) {
            return {};
        }
        return buffer_;
    }

    /// Returns the socket for the load; nothing of an answer may be left.
    Socket take() {
        if (!buffer_.empty()) {
            throw LoadError("the server answered more than it was asked: '" + printable(buffer_) +
                            "'");
        }
        return std::move(socket_);
    }

  private:
    void receive() {
        if (buffer_.size() > kLargestGreeting) {
            throw LoadError("the server answered too much: '" + printable(buffer_) + "'");
        }
        while (!readSome()) {
            waitReady(socket_, false, timeout_);
        }
    }

    /// Returns false if nothing is there yet.
    bool readSome() {
        std::array<std::uint8_t, 4096> chunk{};
        const auto got = socket_.receive(chunk.data(), chunk.size());
        if (!got) {
            throw LoadError("connection closed by the server");
        }
        buffer_.append(reinterpret_cast<const char*>(chunk.data()), *got);
        return *got != 0;
    }

    Socket socket_;
    std::chrono::milliseconds timeout_;
    std::string buffer_;
};

/// Throws LoadError unless the answer is the expected one.
void expect(const std::string& answer, std::string_view expected) {
    if (!answer.starts_with(expected)) {
        refuseLine(answer);
    }
}

std::string command(std::initializer_list<std::string_view> words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const auto word : words) {
        text += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
    }
    return text;
}

/// memcached -Y: the login is a SET whose key does not matter.
void logInByLines(LineClient& client, const SessionOptions& options) {
    if (!options.user.empty()) {
        const auto value = options.user + " " + options.password;
        expect(client.ask("set login 0 0 " + std::to_string(value.size()) + "\r\n" + value +
                          "\r\n"),
               "STORED");
    }
}

void greetText(LineClient& client, const SessionOptions& options) {
    logInByLines(client, options);
    expect(client.ask("version\r\n"), "VERSION ");
}

void greetMeta(LineClient& client, const SessionOptions& options) {
    logInByLines(client, options);
    const auto answer = client.ask("mn\r\n");
    if (answer == "ERROR") {
        throw LoadError(
                "the server does not know the meta commands (memcached has them since 1.6): use "
                "--protocol text");
    }
    expect(answer, "MN");
}

/// Reads past an answer that may contain others.
void skipAnswer(LineClient& client) {
    for (std::uint64_t pending = 1; pending != 0; --pending) {
        const auto line = client.line();
        const auto kind = line.empty() ? '\0' : line.front();
        const bool holds = kind == '%' || kind == '*' || kind == '~' || kind == '|';
        std::uint64_t size = 0;
        if (kind == '-' || kind == '\0' || pending > kLargestGreeting) {
            refuseLine(line);
        }
        if (holds || kind == '$' || kind == '=') {
            if (line == "$-1" || line == "*-1") {
                continue;
            }
            if (!parseDecimal(std::string_view(line).substr(1), kLargestGreeting, size)) {
                refuseLine(line);
            }
        }
        if (holds) {
            pending += (kind == '%' ? 2 * size : size) + (kind == '|' ? size + 1 : 0);
        } else if (kind == '$' || kind == '=') {
            client.skip(size + 2);
        }
    }
}

void greetResp2(LineClient& client, const SessionOptions& options) {
    if (!options.user.empty()) {
        expect(client.ask(command({"AUTH", options.user, options.password})), "+OK");
    } else if (!options.password.empty()) {
        expect(client.ask(command({"AUTH", options.password})), "+OK");
    }
    expect(client.ask(command({"PING"})), "+PONG");
}

void greetResp3(LineClient& client, const SessionOptions& options) {
    const std::string user = options.user.empty() ? "default" : options.user;
    client.send(options.password.empty() ? command({"HELLO", "3"})
                                         : command({"HELLO", "3", "AUTH", user, options.password}));
    skipAnswer(client);
    expect(client.ask(command({"PING"})), "+PONG");
}

Socket openBinary(const SessionOptions& options) {
    auto session = openSession(options);
    protocol::FrameSpec noop;
    noop.opcode = protocol::Opcode::kNoop;
    const auto answer = session.client.ask(noop);
    if (answer.status != protocol::Status::kSuccess) {
        throw LoadError("NOOP: " + std::string(protocol::toString(answer.status)));
    }
    return session.client.takeSocket();
}

Socket openLines(const SessionOptions& options,
                 void (*greet)(LineClient& client, const SessionOptions& options)) {
    LineClient client(dial(options), options.timeout);
    return about(addressOf(options), [&] {
        greet(client, options);
        return client.take();
    });
}

/// Opens one connection to a server without sessions.
Socket openConnection(const SessionOptions& options) {
    switch (options.protocol) {
        case Protocol::kBinary:
            return openBinary(options);
        case Protocol::kText:
            return openLines(options, greetText);
        case Protocol::kMeta:
            return openLines(options, greetMeta);
        case Protocol::kResp2:
            return openLines(options, greetResp2);
        case Protocol::kResp3:
            return openLines(options, greetResp3);
        case Protocol::kCouchbase:
        case Protocol::kAuto:
            break;
    }
    throw LoadError("no single connection of protocol " + std::string(toString(options.protocol)));
}

/// Returns the protocol whose answer begins like this; kAuto if there is none.
Protocol protocolOf(std::string_view answer) {
    if (answer.empty()) {
        return Protocol::kAuto;
    }
    if (static_cast<std::uint8_t>(answer.front()) == raw(protocol::Magic::kClientResponse)) {
        return Protocol::kBinary;
    }
    if (answer.front() == '-' || answer.front() == '+') {
        return Protocol::kResp2;
    }
    for (const std::string_view text : {"ERROR", "CLIENT_ERROR ", "SERVER_ERROR ", "VERSION "}) {
        if (answer.starts_with(text)) {
            return Protocol::kText;
        }
    }
    return Protocol::kAuto;
}

/// Returns true if a server of the binary protocol has sessions: memcached has no cluster map.
bool hasSessions(const SessionOptions& options) {
    auto plain = options;
    plain.plain = true;
    plain.user.clear();
    auto session = openSession(plain);
    protocol::FrameSpec spec;
    spec.opcode = protocol::Opcode::kGetClusterConfig;
    return session.client.ask(spec).status != protocol::Status::kUnknownCommand;
}

}  // namespace

OpenedServer openServer(const SessionOptions& given, std::uint32_t vbuckets, std::size_t count) {
    OpenedServer opened;
    auto options = given;
    options.plain = options.protocol != Protocol::kCouchbase;
    if (!options.plain) {
        auto sessions = openSessions(options, vbuckets, count);
        opened.map = std::move(sessions.map);
        opened.vbuckets = sessions.vbuckets;
        opened.jsonAcknowledged = sessions.sessions.front().jsonAcknowledged;
        for (auto& session : sessions.sessions) {
            opened.sockets.push_back(session.client.takeSocket());
        }
        return opened;
    }
    opened.map.servers = {{options.host, options.port}};
    for (std::size_t i = 0; i < count; ++i) {
        opened.sockets.push_back(openConnection(options));
    }
    return opened;
}

Protocol detectProtocol(const SessionOptions& options) {
    // A NOOP of the binary protocol: its second byte ends the line for servers that read lines, so
    // they answer with an error.
    protocol::FrameSpec noop;
    noop.opcode = protocol::Opcode::kNoop;
    std::vector<std::uint8_t> frame;
    protocol::appendFrame(frame, noop);
    auto patient = options;
    patient.timeout = std::min(options.timeout, std::chrono::milliseconds(2000));
    std::string text;
    for (const std::string_view question :
         {protocol::asText(frame), std::string_view("version\r\n"), std::string_view("PING\r\n")}) {
        LineClient client(dial(patient), patient.timeout);
        client.send(question);
        const auto answer = client.firstBytes();
        const auto found = protocolOf(answer);
        if (found == Protocol::kBinary && !options.plain && hasSessions(patient)) {
            return Protocol::kCouchbase;
        }
        if (found != Protocol::kAuto) {
            return found;
        }
        text = answer.empty() ? text : answer;
    }
    throw LoadError(addressOf(options) + ": cannot determine the protocol of the server (" +
                    (text.empty() ? "it does not answer" : "it says '" + printable(text) + "'") +
                    "): give --protocol");
}

}  // namespace kv::load
