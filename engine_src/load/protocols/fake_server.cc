#include "load/protocols/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "load/protocols/key_codec.h"

namespace kv::load {

using protocol::FrameSpec;
using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

FakeServer::FakeServer(FakeServerOptions options) : options_(std::move(options)) {
    listener_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.fd(), generic, size) != 0 || ::listen(listener_.fd(), 64) != 0 ||
        ::getsockname(listener_.fd(), generic, &size) != 0) {
        throw std::runtime_error("fake server: cannot listen");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
}

FakeServer::~FakeServer() {
    kill();
    acceptor_.join();
    for (auto& thread : threads_) {
        thread.join();
    }
}

void FakeServer::kill() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        for (const int fd : open_) {
            ::shutdown(fd, SHUT_RDWR);
        }
    }
    ::shutdown(listener_.fd(), SHUT_RDWR);  // new connections are refused
}

FakeDocuments::Found FakeDocuments::get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    auto& versions = versions_[key];
    Found found = versions.empty() ? Found{} : versions.back();
    if (const auto late = delayed_.find(key); late != delayed_.end()) {
        if (late->second.cas == 0 || late->second.cas == found.cas) {
            versions.push_back({late->second.value, ++lastCas_});
            ++madeLate_;
        }
        delayed_.erase(late);
    }
    return found;
}

void FakeDocuments::delay(std::size_t sets) {
    const std::lock_guard lock(mutex_);
    toDelay_ = sets;
}

bool FakeDocuments::isDelayed(const std::string& key, std::string value, std::uint64_t demanded) {
    const std::lock_guard lock(mutex_);
    const auto& versions = versions_[key];
    const auto has = versions.empty() ? 0 : versions.back().cas;
    if (toDelay_ == 0 || (demanded != 0 && has != demanded)) {
        return false;  // one that will be refused must not be made later
    }
    --toDelay_;
    delayed_[key] = {std::move(value), demanded};
    return true;
}

std::size_t FakeDocuments::madeLate() {
    const std::lock_guard lock(mutex_);
    return madeLate_;
}

Status FakeDocuments::set(const std::string& key, std::string value, std::uint64_t demanded,
                          std::uint64_t& cas) {
    const std::lock_guard lock(mutex_);
    auto& versions = versions_[key];
    const auto has = versions.empty() ? 0 : versions.back().cas;
    if (demanded != 0 && has != demanded) {
        return has == 0 ? Status::kKeyEnoent : Status::kKeyEexists;
    }
    cas = ++lastCas_;
    versions.push_back({std::move(value), cas});
    return Status::kSuccess;
}

void FakeDocuments::takeBack(const std::string& key) {
    const std::lock_guard lock(mutex_);
    versions_[key].pop_back();
}

std::size_t FakeDocuments::size() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
            std::count_if(versions_.begin(), versions_.end(),
                          [](const auto& document) { return !document.second.empty(); }));
}

void FakeServer::accept() {
    for (;;) {
        const int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            ::close(fd);
            return;
        }
        open_.push_back(fd);
        threads_.emplace_back([this, fd] { serve(fd); });
    }
}

void FakeServer::serve(int fd) {
    std::string in = options_.greeting;
    FakeLines lines(options_.speaks, options_.password, options_.getLine, *this);
    const bool frames =
            options_.speaks == Protocol::kCouchbase || options_.speaks == Protocol::kBinary;
    std::array<char, 65536> chunk{};
    bool alive = options_.greeting.empty();
    if (!alive) {
        ::send(fd, in.data(), in.size(), MSG_NOSIGNAL);
    }
    while (alive) {
        const auto got = ::recv(fd, chunk.data(), chunk.size(), 0);
        if (got <= 0) {
            break;
        }
        in.append(chunk.data(), static_cast<std::size_t>(got));
        std::string out;
        alive = frames ? answerFrames(in, out) : lines.answer(in, out);
        if (muted_) {
            out.clear();
        }
        const std::size_t piece = options_.dribble == 0 ? out.size() : options_.dribble;
        for (std::size_t at = 0; at < out.size();) {
            const auto sent =
                    ::send(fd, out.data() + at, std::min(piece, out.size() - at), MSG_NOSIGNAL);
            if (sent <= 0) {
                alive = false;
                break;
            }
            at += static_cast<std::size_t>(sent);
        }
    }
    const std::lock_guard lock(mutex_);
    open_.remove(fd);
    ::close(fd);
}

bool FakeServer::answerFrames(std::string& in, std::string& out) {
    std::vector<std::uint8_t> answers;
    std::size_t used = 0;
    bool alive = true;
    while (alive) {
        const auto parsed = protocol::parseFrame(protocol::asBytes(in).subspan(used));
        if (parsed.outcome != protocol::ParseOutcome::kFrame) {
            alive = parsed.outcome == protocol::ParseOutcome::kNeedMore;
            break;
        }
        alive = answer(parsed.frame, answers);
        used += parsed.frame.size();
    }
    in.erase(0, used);
    out += protocol::asText(answers);  // at once: byte by byte takes seconds under TSan
    return alive;
}

bool FakeServer::answer(const FrameView& request, std::vector<std::uint8_t>& out) {
    FrameSpec spec;
    spec.magic = protocol::Magic::kClientResponse;
    spec.opcode = request.header.opcode;
    spec.opaque = request.header.opaque;
    std::string value;
    Status status = Status::kSuccess;
    const bool plain = options_.speaks == Protocol::kBinary;
    switch (request.header.opcode) {
        case Opcode::kNoop:
            break;
        case Opcode::kHello:
            ++hellos_;
            value = std::string("\x00\x08", 2);
            break;
        case Opcode::kSaslListMechs:
            value = options_.mechanisms;
            break;
        case Opcode::kSaslAuth:
            ++logins_;
            status = Status::kAuthError;
            break;
        case Opcode::kSelectBucket:
            status = request.keyText() == "default" ? Status::kSuccess : Status::kEaccess;
            break;
        case Opcode::kGetClusterConfig:
            if (plain) {
                status = Status::kUnknownCommand;
                break;
            }
            if (const std::lock_guard lock(mutex_); !config_.empty()) {
                value = config_;
                break;
            }
            value = R"({"vBucketServerMap":{"vBucketMap":[)";
            for (std::uint32_t i = 0; i < options_.vbuckets; ++i) {
                value += i == 0 ? "[0]" : ",[0]";
            }
            value += "]}}";
            break;
        case Opcode::kStat:
            answerStat(request, out);
            return true;
        case Opcode::kGet:
        case Opcode::kSet:
            if (!answerData(request, spec, value)) {
                return options_.silentAfter != 0;  // silent, or dropped
            }
            status = static_cast<Status>(spec.vbucketOrStatus);
            break;
        default:
            status = Status::kUnknownCommand;
    }
    spec.vbucketOrStatus = raw(status);
    spec.value = protocol::asBytes(value);
    protocol::appendFrame(out, spec);
    return true;
}

std::optional<std::uint64_t> FakeServer::count(bool get) {
    const auto nth = ++(get ? gets_ : sets_);
    const auto all = gets_ + sets_;
    const bool dropped = (options_.closeAfter != 0 && all > options_.closeAfter) ||
                         (options_.silentAfter != 0 && all > options_.silentAfter);
    return dropped ? std::nullopt : std::optional(nth);
}

std::optional<Status> FakeServer::carryOut(bool get, const std::string& key, std::string_view value,
                                           std::string& found) {
    const auto nth = count(get);
    if (!nth) {
        return std::nullopt;
    }
    const std::lock_guard lock(mutex_);
    if (options_.keepRequests) {
        requests_.push_back((get ? "G " : "S ") + key);
    }
    return stopping_ ? std::nullopt : std::optional(getOrSet(get, *nth, key, value, found));
}

Status FakeServer::getOrSet(bool get, std::uint64_t nth, const std::string& key,
                            std::string_view value, std::string& found) {
    const auto every = [nth](std::uint32_t n) { return n != 0 && nth % n == 0; };
    if (get) {
        const auto at = contents_.find(key);
        if (at == contents_.end()) {
            return Status::kKeyEnoent;
        }
        found = at->second;
        if (every(options_.corruptEvery) && !found.empty()) {
            found.back() = static_cast<char>(found.back() + 1);
        }
        return Status::kSuccess;
    }
    if (every(options_.tmpfailEvery)) {
        return Status::kEtmpfail;
    }
    if (every(options_.enomemEvery)) {
        return Status::kEnomem;
    }
    if (every(options_.evictEvery)) {
        contents_.erase(key);
    } else {
        contents_[key] = value;
    }
    return Status::kSuccess;
}

bool FakeServer::answerData(const FrameView& request, FrameSpec& spec, std::string& value) {
    static constexpr std::array<std::uint8_t, 4> kFlags{};
    const bool get = request.header.opcode == Opcode::kGet;
    const auto nth = count(get);
    if (!nth) {
        return false;
    }
    const std::string key(request.keyText());
    auto status = Status::kSuccess;
    const std::lock_guard lock(mutex_);
    if (stopping_) {
        return false;  // a killed server does nothing more, whatever it has received
    }
    if (options_.keepRequests) {
        requests_.push_back((get ? "G " : "S ") + key);
    }
    if (options_.speaks == Protocol::kCouchbase &&
        request.header.vbucket() != vbucketOf(crcOf(key), options_.vbuckets)) {
        misrouted_.insert(key);
    }
    if ((get && options_.notMyVbucketEvery != 0 && *nth % options_.notMyVbucketEvery == 0) ||
        (served_ && !served_->contains(request.header.vbucket()))) {
        status = Status::kNotMyVbucket;
    } else if (options_.documents && !get &&
               options_.documents->isDelayed(key, std::string(request.valueText()),
                                             request.header.cas)) {
        return false;
    } else if (options_.documents) {
        status = answerVersioned(request, spec, value);
    } else {
        status = getOrSet(get, *nth, key, request.valueText(), value);
        if (get && status == Status::kSuccess) {
            spec.extras = kFlags;
        }
    }
    spec.vbucketOrStatus = raw(status);
    spec.opaque += options_.shuffleOpaques ? 1 : 0;
    return true;
}

Status FakeServer::answerVersioned(const FrameView& request, FrameSpec& spec, std::string& value) {
    static constexpr std::array<std::uint8_t, 4> kFlags{};
    const std::string key(request.keyText());
    if (request.header.opcode == Opcode::kSet) {
        return options_.documents->set(key, std::string(request.valueText()), request.header.cas,
                                       spec.cas);
    }
    const auto found = options_.documents->get(key);
    if (found.cas == 0) {
        return Status::kKeyEnoent;
    }
    value = found.value;
    spec.cas = found.cas;
    spec.extras = kFlags;
    return Status::kSuccess;
}

void FakeServer::answerStat(const FrameView& request, std::vector<std::uint8_t>& out) {
    FrameSpec spec;
    spec.magic = protocol::Magic::kClientResponse;
    spec.opcode = Opcode::kStat;
    spec.opaque = request.header.opaque;
    auto stats = options_.stats;
    if (options_.queueDrainsAfter != 0) {
        stats["ep_queue_size"] = ++statsAsked_ > options_.queueDrainsAfter ? "0" : "5";
    }
    if (request.keyText() == "nosuch") {
        spec.vbucketOrStatus = raw(Status::kKeyEnoent);
        protocol::appendFrame(out, spec);
        return;
    }
    for (const auto& [key, value] : stats) {
        spec.key = protocol::asBytes(key);
        spec.value = protocol::asBytes(value);
        protocol::appendFrame(out, spec);
    }
    spec.key = {};
    spec.value = {};
    protocol::appendFrame(out, spec);
}

void FakeServer::publish(std::string config) {
    const std::lock_guard lock(mutex_);
    config_ = std::move(config);
}

void FakeServer::serveOnly(std::set<std::uint16_t> vbuckets) {
    const std::lock_guard lock(mutex_);
    served_ = std::move(vbuckets);
}

std::map<std::string, std::string> FakeServer::contents() {
    const std::lock_guard lock(mutex_);
    return contents_;
}

std::vector<std::string> FakeServer::requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
}

std::set<std::string> FakeServer::misrouted() {
    const std::lock_guard lock(mutex_);
    return misrouted_;
}

}  // namespace kv::load
