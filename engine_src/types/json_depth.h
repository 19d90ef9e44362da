// isShallowJson: checks a JSON text before it is parsed.
#pragma once

#include <cstddef>
#include <string_view>

namespace kv {

/// Returns true if lists and objects are nested at most `most` deep. Copying and printing a parsed
/// text are recursive, and a text from another node must not exhaust the stack. Accepts texts that
/// are no JSON. (The parser's callback could check the depth as well, but it makes parsing a list
/// of objects quadratic.)
inline bool isShallowJson(std::string_view text, int most = 16) {
    int depth = 0;
    bool inString = false;
    for (size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '"') {
            inString = !inString;
        } else if (inString) {
            at += c == '\\' ? 1 : 0;  // the next character is escaped
        } else if (c == '[' || c == '{') {
            if (++depth > most) {
                return false;
            }
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return true;
}

}  // namespace kv
