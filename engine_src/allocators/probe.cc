// allocator_probe: prints what the linked allocator reports about itself; for a quick look at a
// build, and as the allocators' test.
#include <cstdio>
#include <memory>
#include <vector>

#include "allocators/allocator.h"

int main() {
    namespace allocator = kv::allocator;
    std::vector<std::unique_ptr<char[]>> held;
    for (size_t i = 0; i < 10'000; ++i) {
        held.push_back(std::make_unique<char[]>(1'000));
    }
    std::printf("name %s\nversion %s\n", allocator::name().c_str(), allocator::version().c_str());
    for (const auto& [option, value] : allocator::options()) {
        std::printf("%s %s\n", option.c_str(), value.c_str());
    }
    const auto stats = allocator::stats();
    const auto print = [](const char* figure, const std::optional<uint64_t>& value) {
        if (value) {
            std::printf("%s %llu\n", figure, static_cast<unsigned long long>(*value));
        }
    };
    print("allocated", stats.allocated);
    print("active", stats.active);
    print("metadata", stats.metadata);
    print("resident", stats.resident);
    print("mapped", stats.mapped);
    print("retained", stats.retained);
    print("metadata_thp", stats.metadataThp);
    return 0;
}
