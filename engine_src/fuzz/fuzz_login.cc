// Any first and second message to each login mechanism: none may succeed.
#include <cstdlib>
#include <map>
#include <string_view>

#include "server/login/sasl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace kv::server;
    // A password of random bytes, because guessing it is not tested.
    static const UserStore users(
            std::map<std::string, std::string>{{"ann", kv::crypto::randomBytes(32)}});
    static constexpr std::string_view kNames[] = {"SCRAM-SHA1", "SCRAM-SHA256", "SCRAM-SHA512",
                                                  "PLAIN"};
    if (size < 2) {
        return 0;
    }
    const auto mechanism = kNames[data[0] % 4];
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const auto first = text.substr(0, data[1]);
    const auto second = text.substr(first.size());
    SaslExchange exchange(users);
    auto answer = exchange.start(mechanism, first);
    if (answer.status == SaslStatus::Continue) {
        answer = exchange.step(mechanism, second);
    }
    if (answer.status == SaslStatus::Success) {
        std::abort();
    }
    return 0;
}
