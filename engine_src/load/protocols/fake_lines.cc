#include "load/protocols/fake_lines.h"

#include <sstream>

namespace kv::load {

using protocol::Status;

namespace {

std::vector<std::string> split(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
        words.push_back(word);
    }
    return words;
}

std::string flagOf(const std::vector<std::string>& words, char name) {
    for (std::size_t i = 2; i < words.size(); ++i) {
        if (words[i].front() == name) {
            return words[i];
        }
    }
    return {};
}

/// Parses a RESP request into its words and size; nothing if it has not arrived completely.
std::optional<std::pair<std::vector<std::string>, std::size_t>> parseCommand(
        const std::string& in) {
    std::size_t at = 0;
    const auto number = [&](char kind) -> std::optional<std::size_t> {
        const auto end = in.find("\r\n", at);
        if (end == std::string::npos || in[at] != kind) {
            return std::nullopt;
        }
        const auto value = std::stoul(in.substr(at + 1, end - at - 1));
        at = end + 2;
        return value;
    };
    const auto count = number('*');
    std::vector<std::string> words;
    for (std::size_t i = 0; count && i < *count; ++i) {
        const auto size = number('$');
        if (!size || in.size() < at + *size + 2) {
            return std::nullopt;
        }
        words.push_back(in.substr(at, *size));
        at += *size + 2;
    }
    return count ? std::optional(std::pair(words, at)) : std::nullopt;
}

}  // namespace

FakeLines::FakeLines(Protocol speaks, std::string password, std::string getLine, FakeStore& store)
    : speaks_(speaks),
      password_(std::move(password)),
      getLine_(std::move(getLine)),
      store_(store),
      loggedIn_(password_.empty()) {}

bool FakeLines::answer(std::string& in, std::string& out) {
    for (;;) {
        const auto next = oneRequest(in, out);
        if (next != Next::kGoOn) {
            return next == Next::kNeedMore;
        }
    }
}

FakeLines::Next FakeLines::oneRequest(std::string& in, std::string& out) {
    if (isRedis() && in.starts_with('*')) {
        const auto parsed = parseCommand(in);
        if (!parsed) {
            return Next::kNeedMore;
        }
        in.erase(0, parsed->second);
        return redisRequest(parsed->first, out);
    }
    const auto end = in.find('\n');
    if (end == std::string::npos) {
        return Next::kNeedMore;
    }
    const auto words = split(in.substr(0, end));
    if (isRedis()) {
        in.erase(0, end + 1);
        return redisRequest(words, out);
    }
    return memcachedRequest(words, in, end + 1, out);
}

FakeLines::Next FakeLines::memcachedRequest(Words words, std::string& in, std::size_t lineSize,
                                            std::string& out) {
    const bool meta = speaks_ == Protocol::kMeta;
    const std::string name = words.empty() ? "" : words.front();
    if ((name == "set" && words.size() == 5) || (meta && name == "ms" && words.size() > 2)) {
        const auto size = std::stoul(words[name == "set" ? 4 : 2]);
        if (in.size() < lineSize + size + 2) {
            return Next::kNeedMore;
        }
        const auto value = in.substr(lineSize, size);
        in.erase(0, lineSize + size + 2);
        return storage(words, value, out);
    }
    in.erase(0, lineSize);
    if (!loggedIn_) {
        out += "CLIENT_ERROR unauthenticated\r\n";
        return Next::kDrop;
    }
    if (((name == "get") || (meta && name == "mg")) && words.size() > 1) {
        return retrieval(words, out);
    }
    out += name == "version" ? "VERSION 1.6.18\r\n" : meta && name == "mn" ? "MN\r\n" : "ERROR\r\n";
    return Next::kGoOn;
}

FakeLines::Next FakeLines::storage(const Words& words, const std::string& value, std::string& out) {
    if (!loggedIn_) {
        loggedIn_ = value == "user " + password_;
        out += loggedIn_ ? "STORED\r\n" : "CLIENT_ERROR authentication failure\r\n";
        return loggedIn_ ? Next::kGoOn : Next::kDrop;
    }
    std::string unused;
    const auto status = store_.carryOut(false, words[1], value, unused);
    if (!status) {
        return Next::kDrop;
    }
    if (*status != Status::kSuccess) {
        out += *status == Status::kEnomem ? "SERVER_ERROR out of memory storing object\r\n"
                                          : "SERVER_ERROR temporary failure\r\n";
    } else if (words.front() == "set") {
        out += "STORED\r\n";
    } else if (flagOf(words, 'q').empty()) {
        out += "HD " + flagOf(words, 'O') + "\r\n";
    }
    return Next::kGoOn;
}

FakeLines::Next FakeLines::retrieval(const Words& words, std::string& out) {
    std::string value;
    const auto status = store_.carryOut(true, words[1], {}, value);
    if (!status) {
        return Next::kDrop;
    }
    const auto size = std::to_string(value.size());
    const bool found = *status == Status::kSuccess;
    if (!getLine_.empty()) {
        out += getLine_ + "\r\n";
    } else if (words.front() == "get") {
        out += (found ? "VALUE " + words[1] + " 0 " + size + "\r\n" + value + "\r\n" : "") +
               "END\r\n";
    } else if (found) {
        out += "VA " + size + " " + flagOf(words, 'O') + "\r\n" + value + "\r\n";
    } else if (flagOf(words, 'q').empty()) {
        out += "EN\r\n";
    }
    return Next::kGoOn;
}

bool FakeLines::logIn(const Words& words, std::size_t user, std::size_t password) {
    const auto& name = words[user];
    loggedIn_ = words[password] == password_ && (name == "user" || name == "default");
    return loggedIn_;
}

void FakeLines::greetRedis(const Words& words, std::string& out) {
    const bool auth = words.size() == 5 && words[2] == "AUTH";
    if (speaks_ != Protocol::kResp3) {
        out += "-ERR unknown command 'HELLO'\r\n";
    } else if (auth && !logIn(words, 3, 4)) {
        out += "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    } else if (!loggedIn_) {
        out += "-NOAUTH HELLO must be called with the client already authenticated\r\n";
    } else {
        version3_ = true;
        out += "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*0\r\n";
    }
}

FakeLines::Next FakeLines::redisRequest(const Words& words, std::string& out) {
    const std::string name = words.empty() ? "" : words.front();
    if (name == "HELLO") {
        greetRedis(words, out);
        return Next::kGoOn;
    }
    if (name == "AUTH" && words.size() > 1) {
        const bool named = words.size() == 3;
        const auto full = named ? words : Words{"AUTH", "default", words[1]};
        out += logIn(full, 1, 2) ? "+OK\r\n"
                                 : "-WRONGPASS invalid username-password pair or user is "
                                   "disabled.\r\n";
        return Next::kGoOn;
    }
    if (!loggedIn_) {
        out += "-NOAUTH Authentication required.\r\n";
        return Next::kGoOn;
    }
    if (name == "PING") {
        out += "+PONG\r\n";
        return Next::kGoOn;
    }
    const bool get = name == "GET";
    if (words.size() < 2 || !(get || name == "SET")) {
        out += "-ERR unknown command '" + name + "'\r\n";
        return Next::kGoOn;
    }
    std::string value;
    const auto status = store_.carryOut(get, words[1], get ? "" : words[2], value);
    if (!status) {
        return Next::kDrop;
    }
    if (get && !getLine_.empty()) {
        out += getLine_ + "\r\n";
    } else if (*status == Status::kKeyEnoent) {
        out += version3_ ? "_\r\n" : "$-1\r\n";
    } else if (*status != Status::kSuccess) {
        out += *status == Status::kEnomem ? "-OOM command not allowed when used memory > "
                                            "'maxmemory'.\r\n"
                                          : "-LOADING Redis is loading the dataset in memory\r\n";
    } else {
        out += get ? "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n" : "+OK\r\n";
    }
    return Next::kGoOn;
}

}  // namespace kv::load
