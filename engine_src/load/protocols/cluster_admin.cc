#include "load/protocols/cluster_admin.h"

#include <sys/socket.h>

#include <array>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "load/core/load_error.h"
#include "load/protocols/key_codec.h"
#include "protocol/dcp.h"

namespace kv::load {

using protocol::FrameSpec;
using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;
using Json = nlohmann::ordered_json;

namespace {

enum State : std::uint8_t { kActive = 1, kReplica = 2, kPending = 3, kDead = 4 };

std::uint8_t stateOf(const Json& row, int self) {
    if (row.at(0).get<int>() == self) {
        return kActive;
    }
    for (std::size_t i = 1; i < row.size(); ++i) {
        if (row.at(i).get<int>() == self) {
            return kReplica;
        }
    }
    return kDead;
}

int selfOf(const Json& config) {
    const auto& nodes = config.at("nodesExt");
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].value("thisNode", false)) {
            return static_cast<int>(i);
        }
    }
    throw LoadError("the cluster config has no thisNode");
}

Answer must(Client& client, const FrameSpec& spec, const std::string& what) {
    auto answer = client.ask(spec);
    if (answer.status != Status::kSuccess) {
        throw LoadError(client.peer() + ": " + what + ": " +
                        std::string(protocol::toString(answer.status)) +
                        (answer.value.empty() ? "" : " (" + answer.value.substr(0, 200) + ")"));
    }
    return answer;
}

void setState(Client& client, std::uint16_t vbucket, std::uint8_t state) {
    FrameSpec spec;
    spec.opcode = Opcode::kSetVBucket;
    spec.vbucketOrStatus = vbucket;
    spec.extras = protocol::Bytes(&state, 1);
    must(client, spec, "state of vBucket " + std::to_string(vbucket));
}

/// After an error, which is the one to report.
void makeReplicaAgain(Client& client, std::uint16_t vbucket) {
    try {
        setState(client, vbucket, kReplica);
    } catch (const LoadError&) {  // in force, unless the connection is lost
    }
}

int askState(Client& client, std::uint16_t vbucket) {
    FrameSpec spec;
    spec.opcode = Opcode::kGetVBucket;
    spec.vbucketOrStatus = vbucket;
    const auto answer = must(client, spec, "state of vBucket " + std::to_string(vbucket));
    return answer.value.empty() ? 0 : static_cast<int>(answer.value.back());
}

/// Frames that a server sends unasked.
class FrameReader {
  public:
    FrameReader(Socket socket, std::chrono::milliseconds timeout)
        : socket_(std::move(socket)), peer_(peerOf(socket_)), timeout_(timeout) {}

    const std::string& peer() const noexcept { return peer_; }

    void send(const FrameSpec& spec) {
        std::vector<std::uint8_t> bytes;
        protocol::appendFrame(bytes, spec);
        about(peer_, [&] { sendAll(socket_, bytes, timeout_); });
    }

    /// Passes frames on until `handle` returns false.
    void read(const std::function<bool(const FrameView&)>& handle) {
        for (;;) {
            std::size_t at = 0;
            while (true) {
                const auto parsed = protocol::parseFrame(
                        protocol::Bytes(buffer_.data() + at, buffer_.size() - at));
                if (parsed.outcome == protocol::ParseOutcome::kBad) {
                    throw LoadError(peer_ + ": it does not speak the memcached binary protocol");
                }
                if (parsed.outcome != protocol::ParseOutcome::kFrame) {
                    break;
                }
                at += parsed.frame.size();
                if (!handle(parsed.frame)) {
                    forget(at);
                    return;
                }
            }
            forget(at);
            about(peer_, [this] { receive(); });
        }
    }

  private:
    void forget(std::size_t bytes) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
    }

    void receive() {
        for (;;) {
            const auto got = socket_.receive(chunk_.data(), chunk_.size());
            if (!got) {
                throw LoadError("connection closed by the server");
            }
            if (*got != 0) {
                buffer_.insert(buffer_.end(), chunk_.data(), chunk_.data() + *got);
                return;
            }
            waitReady(socket_, false, timeout_);
        }
    }

    Socket socket_;
    std::string peer_;
    std::chrono::milliseconds timeout_;
    std::vector<std::uint8_t> buffer_;
    std::array<std::uint8_t, std::size_t{256} * 1024> chunk_{};
};

/// Returns a fingerprint of one document's last change: everything except the stream's number.
std::uint64_t fingerprint(const FrameView& message) {
    std::string record;
    const auto add = [&record](std::string_view part) {
        record.append(std::to_string(part.size())).push_back(':');
        record.append(part);
    };
    record.push_back(static_cast<char>(message.header.opcode));
    record.append(std::to_string(message.header.cas)).push_back(':');
    add(protocol::asText(message.extras));
    add(message.keyText());
    add(message.valueText());
    return std::hash<std::string_view>{}(record);
}

/// Keys are arbitrary bytes, JSON is text.
std::string hexOf(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const auto byte : protocol::asBytes(bytes)) {
        text.push_back(kDigits[byte >> 4U]);
        text.push_back(kDigits[byte & 15U]);
    }
    return text;
}

Json digest(FrameReader& reader, std::uint16_t vbucket) {
    const auto extras = protocol::encodeDcpStreamRequest(
            {.flags = protocol::dcp_stream::kToLatest, .end = ~std::uint64_t{0}});
    reader.send({.opcode = Opcode::kDcpStreamReq, .vbucketOrStatus = vbucket, .extras = extras});
    struct Document {
        std::uint64_t fingerprint = 0;
        std::uint64_t cas = 0;
        std::uint32_t crc = 0;  // of the value
        bool deleted = false;
    };
    std::unordered_map<std::string, Document> documents;
    std::uint64_t high = 0;
    reader.read([&](const FrameView& frame) {
        const auto opcode = frame.header.opcode;
        if (opcode == Opcode::kDcpStreamReq) {
            if (const auto status = frame.header.status(); status != Status::kSuccess) {
                throw LoadError(reader.peer() + ": DCP stream of vBucket " +
                                std::to_string(vbucket) + ": " +
                                std::string(protocol::toString(status)));
            }
            return true;
        }
        const bool deleted = opcode == Opcode::kDcpDeletion || opcode == Opcode::kDcpExpiration;
        if (deleted || opcode == Opcode::kDcpMutation) {
            high = loadBig<std::uint64_t>(frame.extras.data());
            documents[std::string(frame.keyText())] = {fingerprint(frame), frame.header.cas,
                                                       crcOf(frame.valueText()), deleted};
        }
        return opcode != Opcode::kDcpStreamEnd;
    });
    std::uint64_t sum = 0;
    std::uint64_t tombstones = 0;
    const std::pair<const std::string, Document>* sample = nullptr;
    for (const auto& entry : documents) {
        const auto& document = entry.second;
        sum += document.fingerprint;
        if (document.deleted) {
            ++tombstones;
        } else if (sample == nullptr || document.fingerprint < sample->second.fingerprint) {
            sample = &entry;  // equal copies have equal samples
        }
    }
    Json found{{"high_seqno", high},
               {"documents", documents.size() - tombstones},
               {"tombstones", tombstones},
               {"digest", sum},
               {"sample", nullptr}};
    if (sample != nullptr) {
        found["sample"] = {{"key", hexOf(sample->first)},
                           {"cas", sample->second.cas},
                           {"value_crc32", sample->second.crc}};
    }
    return found;
}

}  // namespace

NodeConfig::NodeConfig(std::string json) : json_(std::move(json)) {
    try {
        const auto config = Json::parse(json_);
        const int self = selfOf(config);
        for (const auto& row : config.at("vBucketServerMap").at("vBucketMap")) {
            states_.push_back(stateOf(row, self));
        }
    } catch (const nlohmann::json::exception& error) {
        throw LoadError(std::string("the cluster config: ") + error.what());
    }
}

void NodeConfig::setStates(Client& client) const {
    for (std::size_t vbucket = 0; vbucket < states_.size(); ++vbucket) {
        setState(client, static_cast<std::uint16_t>(vbucket), states_[vbucket]);
    }
}

void setStates(Client& client, std::span<const std::uint16_t> vbuckets, std::string_view state) {
    const auto wanted = state == "active"    ? kActive
                        : state == "replica" ? kReplica
                        : state == "pending" ? kPending
                        : state == "dead"
                                ? kDead
                                : throw LoadError("no vBucket can be '" + std::string(state) + "'");
    for (const auto vbucket : vbuckets) {
        setState(client, vbucket, wanted);
    }
}

void discardCopies(Client& client, std::span<const std::uint16_t> vbuckets) {
    for (const auto vbucket : vbuckets) {
        if (askState(client, vbucket) != kReplica) {
            throw LoadError(client.peer() + ": vBucket " + std::to_string(vbucket) +
                            " is not a replica: nothing was discarded");
        }
    }
    for (const auto vbucket : vbuckets) {
        try {
            setState(client, vbucket, kDead);  // in force even if it cannot be stored
            FrameSpec spec;
            spec.opcode = Opcode::kDelVBucket;
            spec.vbucketOrStatus = vbucket;
            must(client, spec, "deletion of vBucket " + std::to_string(vbucket));
        } catch (const LoadError&) {
            makeReplicaAgain(client, vbucket);  // it still has its copy
            throw;
        }
        setState(client, vbucket, kReplica);
    }
}

void NodeConfig::publish(Client& client) const {
    FrameSpec spec;
    spec.opcode = Opcode::kSetClusterConfig;
    spec.value = protocol::asBytes(json_);
    must(client, spec, "cluster config");
}

Json digestVbuckets(Client client, const SessionOptions& options) {
    const auto vbuckets = askVbuckets(client);
    std::vector<std::pair<std::uint16_t, std::string>> held;
    for (std::uint32_t number = 0; number < vbuckets; ++number) {
        const auto vbucket = static_cast<std::uint16_t>(number);
        if (const int state = askState(client, vbucket); state != kDead) {
            held.emplace_back(vbucket, state == kActive    ? "active"
                                       : state == kReplica ? "replica"
                                                           : "pending");
        }
    }
    const auto flags = protocol::encodeDcpOpen(protocol::dcp_open::kProducer |
                                               protocol::dcp_open::kDeleteTimes);
    FrameSpec open;
    open.opcode = Opcode::kDcpOpen;
    open.extras = flags;
    open.key = protocol::asBytes("kvctl digest");
    must(client, open, "DCP");
    FrameReader reader(client.takeSocket(), options.timeout);
    Json all = Json::object();
    for (const auto& [vbucket, state] : held) {
        Json entry{{"state", state}};
        entry.update(digest(reader, vbucket));
        all[std::to_string(vbucket)] = entry;
    }
    return all;
}

}  // namespace kv::load
