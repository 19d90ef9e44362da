// conductor PLAN.json: runs the programs of all variants at the same time and asks them for slices
// in rotation (README.md). Prints one JSON document to stdout.
//
// Exit status: 0 done, 1 a variant failed (the document names it and the cause), 2 usage, 128 + N
// signal N.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "slices/conductor.h"

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kSignalled = 128;

int run(const char* planFile) {
    kv::slices::Plan plan;
    try {
        std::ifstream file(planFile);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        if (!file) {
            throw std::invalid_argument(std::string("cannot read ") + planFile);
        }
        plan = kv::slices::parsePlan(text);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "conductor: %s\n", error.what());
        return kUsage;
    }
    const auto outcome = kv::slices::conduct(plan);
    std::cout << outcome.document << std::endl;
    if (!outcome.failure.empty()) {
        std::fprintf(stderr, "conductor: %s\n", outcome.failure.c_str());
    }
    if (outcome.signal != 0) {
        return kSignalled + outcome.signal;
    }
    return outcome.failure.empty() && std::cout ? 0 : kFailure;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 || argv[1][0] == '-') {
        std::fprintf(stderr, "usage: conductor PLAN.json\n");
        return kUsage;
    }
    try {
        return run(argv[1]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "conductor: %s\n", error.what());
        return kFailure;
    }
}
