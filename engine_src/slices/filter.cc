#include "slices/filter.h"

#include <array>
#include <stdexcept>

namespace kv::slices {

void Filter::Free::operator()(regex_t* regex) const {
    regfree(regex);
    std::default_delete<regex_t>()(regex);
}

Filter::Filter(const std::string& expression) : negative_(expression.starts_with('-')) {
    auto regex = std::make_unique<regex_t>();
    const char* pattern = expression.c_str() + (negative_ ? 1 : 0);
    if (const int error = regcomp(regex.get(), pattern, REG_EXTENDED | REG_NOSUB); error != 0) {
        std::array<char, 200> why{};
        regerror(error, regex.get(), why.data(), why.size());
        throw std::invalid_argument(why.data());
    }
    regex_.reset(regex.release());
}

bool Filter::takes(const std::string& full) const {
    return (regexec(regex_.get(), full.c_str(), 0, nullptr, 0) == 0) != negative_;
}

}  // namespace kv::slices
