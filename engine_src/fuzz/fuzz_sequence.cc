// Sequences of well-formed requests against a model: every request is answered once, the next read
// returns a confirmed mutation, and nothing succeeds with another's CAS. Each request is four bytes
// of input: operation, key, argument, and the choice of CAS and time.

#include <map>
#include <optional>

#include "fuzz/require.h"
#include "logging/log.h"
#include "server/test_support.h"

namespace {

using namespace kv;
using namespace kv::server;
using namespace kv::server::testing_support;
using protocol::Opcode;
using protocol::Status;

template <class Number>
std::string big(Number value) {
    std::string bytes(sizeof value, '\0');
    storeBig(bytes.data(), value);
    return bytes;
}

struct Document {
    std::string value;
    uint32_t expiry{0};
    uint64_t cas{0};
    std::optional<uint64_t> lock{};  ///< the CAS that opens it, if it may still be locked
};

class Model {
  public:
    void step(uint8_t operation, uint8_t keyByte, uint8_t argument, uint8_t choice) {
        if ((choice & 0xc0U) == 0xc0U) {
            bench_.now = OpTime::fromNanos(bench_.now.nanos + uint64_t{argument} * 1'000'000'000);
        }
        const std::string key(1, static_cast<char>('a' + keyByte % 5));
        constexpr Opcode kOperations[] = {
                Opcode::kGet,           Opcode::kSet,       Opcode::kAdd,
                Opcode::kReplace,       Opcode::kDelete,    Opcode::kIncrement,
                Opcode::kDecrement,     Opcode::kAppend,    Opcode::kTouch,
                Opcode::kGetLocked,     Opcode::kUnlockKey, Opcode::kFlush,
                Opcode::kPrepend,       Opcode::kGat,       Opcode::kSetWithMeta,
                Opcode::kDeleteWithMeta};
        run(kOperations[operation % std::size(kOperations)], key, argument, choice);
        check(key);
    }

  private:
    [[nodiscard]] bool isLive(const std::string& key) const {
        const auto found = documents_.find(key);
        return found != documents_.end() &&
               (found->second.expiry == 0 || found->second.expiry > bench_.now.seconds);
    }
    [[nodiscard]] uint64_t chooseCas(const std::string& key, uint8_t choice) const {
        const auto found = documents_.find(key);
        switch (choice & 3U) {
            case 0:
            case 1:
                return 0;
            case 2:
                return found == documents_.end() ? 77
                                                 : found->second.lock.value_or(found->second.cas);
            default:
                return 12345;
        }
    }
    Answer ask(Frame frame) {
        frame.opaque = ++opaque_;
        bench_.feed(frame.bytes());
        const auto answers = bench_.answers();
        require(answers.size() == 1 && answers[0].opaque == opaque_ &&
                answers[0].opcode == frame.opcode);
        return answers[0];
    }

    void run(Opcode opcode, const std::string& key, uint8_t argument, uint8_t choice) {
        const uint32_t relative = (choice & 4U) != 0 ? argument : 0;
        const uint32_t expiry = relative == 0 ? 0 : bench_.now.seconds + relative;
        const std::string value =
                (choice & 8U) != 0 ? std::to_string(argument) : std::string(argument, 'x');
        Frame frame{.opcode = opcode, .key = key};
        switch (opcode) {
            case Opcode::kSet:
            case Opcode::kAdd:
            case Opcode::kReplace:
                frame.value = value;
                frame.extras = big(uint32_t{7}) + big(relative);
                frame.cas = opcode == Opcode::kAdd ? 0 : chooseCas(key, choice);
                break;
            case Opcode::kDelete:
            case Opcode::kUnlockKey:
                frame.cas = chooseCas(key, choice);
                break;
            case Opcode::kAppend:
            case Opcode::kPrepend:
                frame.value = value;
                frame.cas = chooseCas(key, choice);
                break;
            case Opcode::kSetWithMeta:
                frame.value = value;
                [[fallthrough]];
            case Opcode::kDeleteWithMeta:
                // A version from elsewhere that replaces any version here.
                frame.extras = big(uint32_t{7}) +
                               big(frame.opcode == Opcode::kSetWithMeta ? expiry : 0) +
                               big(uint64_t{argument}) + big(++foreignCas_) +
                               big(uint32_t{protocol::kSkipConflictResolution});
                frame.cas = chooseCas(key, choice);
                break;
            case Opcode::kIncrement:
            case Opcode::kDecrement:
                frame.extras = big(uint64_t{argument}) + big(uint64_t{5}) + big(relative);
                break;
            case Opcode::kTouch:
            case Opcode::kGat:
                frame.extras = big(relative);
                break;
            case Opcode::kFlush:
                frame.key.clear();
                break;
            default:
                break;
        }
        const Answer answer = ask(frame);
        if (answer.status == Status::kSuccess) {
            apply(frame, answer, expiry);
        }
    }

    /// Applies a confirmed request to the model.
    void apply(const Frame& frame, const Answer& answer, uint32_t expiry) {
        if (frame.opcode == Opcode::kFlush) {
            documents_.clear();
            return;
        }
        const bool live = isLive(frame.key);
        Document& document = documents_[frame.key];
        const bool casFits = frame.cas == 0 || frame.cas == document.cas ||
                             (document.lock && frame.cas == *document.lock);
        require(casFits);
        switch (frame.opcode) {
            case Opcode::kSet:
            case Opcode::kAdd:
            case Opcode::kReplace:
                require(frame.opcode != (live ? Opcode::kAdd : Opcode::kReplace));
                document = {frame.value, expiry, answer.cas, {}};
                break;
            case Opcode::kDelete:
                require(live);
                documents_.erase(frame.key);
                break;
            case Opcode::kAppend:
                require(live);
                document = {document.value + frame.value, document.expiry, answer.cas, {}};
                break;
            case Opcode::kPrepend:
                require(live);
                document = {frame.value + document.value, document.expiry, answer.cas, {}};
                break;
            case Opcode::kSetWithMeta:
                require(answer.cas == foreignCas_);
                document = {frame.value, expiry, answer.cas, {}};
                break;
            case Opcode::kDeleteWithMeta:
                documents_.erase(frame.key);
                break;
            case Opcode::kIncrement:
            case Opcode::kDecrement:
                document = {std::to_string(loadBig<uint64_t>(answer.value.data())),
                            live ? document.expiry : expiry,
                            answer.cas,
                            {}};
                break;
            case Opcode::kGat:
                require(answer.value == document.value);
                [[fallthrough]];
            case Opcode::kTouch:
                require(live);
                document.expiry = expiry;
                document.cas = answer.cas;
                break;
            case Opcode::kGetLocked:
                require(live && answer.value == document.value);
                document.lock = answer.cas;
                break;
            case Opcode::kUnlockKey:
                require(live && document.lock == frame.cas);
                document.lock.reset();
                break;
            default:
                require(live);
                break;
        }
    }

    /// Checks that exactly the confirmed document is there.
    void check(const std::string& key) {
        const Answer answer = ask({.opcode = Opcode::kGet, .key = key});
        if (!isLive(key)) {
            require(answer.status == Status::kKeyEnoent);
            documents_.erase(key);
            return;
        }
        const Document& document = documents_.at(key);
        require(answer.status == Status::kSuccess && answer.value == document.value);
        require(answer.cas == document.cas || (answer.cas == ~uint64_t{0} && document.lock));
    }

    Bench bench_{nullptr, 1};
    std::map<std::string, Document> documents_;
    uint32_t opaque_{0};
    uint64_t foreignCas_{1000};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    log::setLevel(log::Level::Off);
    constexpr size_t kMaxSteps = 400;
    Model model;
    for (size_t at = 0; at + 4 <= size && at < 4 * kMaxSteps; at += 4) {
        model.step(data[at], data[at + 1], data[at + 2], data[at + 3]);
    }
    return 0;
}
