#include "options/build_info.h"

#include "options/mutation.h"
#include "options/selected/build.h"
#include "options/selected/switches.h"

namespace kv::options {

std::vector<std::pair<std::string, std::string>> buildInfo() {
    std::vector<std::pair<std::string, std::string>> info;
    for (const auto& [name, value] : kSelected) {
        info.emplace_back(name, value);
    }
    info.emplace_back("type", KV_BUILD_TYPE);
    if (kMutationsBuilt) {
        info.emplace_back("mutations", "built in");
    }
    return info;
}

}  // namespace kv::options
