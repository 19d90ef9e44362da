#pragma once

// One connection of the FakeServer that speaks a protocol of lines: memcached text and meta, or
// RESP.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/protocols/protocol.h"
#include "protocol/status.h"

namespace kv::load {

/// The server's operations on a document, independent of the protocol.
class FakeStore {
  public:
    virtual ~FakeStore() = default;
    /// A GET fills in `found`, a SET stores `value`. Empty: the server drops the connection.
    virtual std::optional<protocol::Status> carryOut(bool get, const std::string& key,
                                                     std::string_view value,
                                                     std::string& found) = 0;
};

class FakeLines {
  public:
    /// Refers to `store`. `password`: what AUTH, HELLO or the login by SET must send ("user" is the
    /// user); empty: none. `getLine`: a line that is the answer to every GET, instead of a value.
    FakeLines(Protocol speaks, std::string password, std::string getLine, FakeStore& store);

    /// Takes complete requests off the front of `in` and appends their answers to `out`. Returns
    /// false if the connection is to be dropped.
    bool answer(std::string& in, std::string& out);

  private:
    enum class Next { kGoOn, kNeedMore, kDrop };
    using Words = std::vector<std::string>;

    Next oneRequest(std::string& in, std::string& out);
    Next memcachedRequest(Words words, std::string& in, std::size_t lineSize, std::string& out);
    Next storage(const Words& words, const std::string& value, std::string& out);
    Next retrieval(const Words& words, std::string& out);
    Next redisRequest(const Words& words, std::string& out);
    void greetRedis(const Words& words, std::string& out);
    /// `user` and `password` are their places among the words.
    bool logIn(const Words& words, std::size_t user, std::size_t password);

    bool isRedis() const { return isResp(speaks_); }

    Protocol speaks_;
    std::string password_;
    std::string getLine_;
    FakeStore& store_;
    bool loggedIn_;
    bool version3_ = false;
};

}  // namespace kv::load
