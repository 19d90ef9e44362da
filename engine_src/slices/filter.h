// Which benchmarks are wanted: a POSIX extended regular expression, as Google Benchmark's filter.
#pragma once

#include <regex.h>

#include <memory>
#include <string>

namespace kv::slices {

class Filter {
  public:
    /// "-..." takes what does not match. Throws std::invalid_argument.
    explicit Filter(const std::string& expression);
    /// Whether the expression matches anywhere in it.
    [[nodiscard]] bool takes(const std::string& full) const;

  private:
    // Not std::regex: gcc 12's does not compile without warnings under a sanitizer.
    struct Free {
        void operator()(regex_t* regex) const;
    };
    bool negative_;
    std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace kv::slices
