// Filter: selects benchmarks by a POSIX extended regular expression, like Google Benchmark's
// filter.
#pragma once

#include <regex.h>

#include <memory>
#include <string>

namespace kv::slices {

class Filter {
  public:
    /// "-..." selects those that do not match. Throws std::invalid_argument.
    explicit Filter(const std::string& expression);
    /// Returns true if the expression matches anywhere in `full`.
    [[nodiscard]] bool takes(const std::string& full) const;

  private:
    // Not std::regex: that of gcc 12 does not compile without warnings under a sanitizer.
    struct Free {
        void operator()(regex_t* regex) const;
    };
    bool negative_;
    std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace kv::slices
