// How the ready queue knows whether a vBucket stands in it (dcp_ready_queue.h).
//
//   bitmap  a bit a vBucket
//   set     std::set, the historic change's own: log n steps, and a node is allocated for each push
//   hash    std::unordered_set, which its review wished for: a node for each push, too
//   list    a copy of the queue, searched from its front as before the change
//
// Contract: insert(vb) is true when vb was not there; eraseOldest(vb) forgets vb, which is the one
// of all that are there that was inserted first. Called under the queue's mutex.
#pragma once

#include <set>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "options/ready_list.h"

namespace kv::options {

class BitmapLookup {
  public:
    static constexpr std::string_view kName = "readyqueue";
    explicit BitmapLookup(size_t vbuckets) : listed_(vbuckets) {}

    bool insert(Vbid vbid) {
        if (listed_[vbid.get()]) {
            return false;
        }
        listed_[vbid.get()] = true;
        return true;
    }
    void eraseOldest(Vbid vbid) { listed_[vbid.get()] = false; }

  private:
    std::vector<bool> listed_;
};

/// `Container`: std::set or std::unordered_set.
template <class Container>
class NodeLookup {
  public:
    explicit NodeLookup(size_t /*vbuckets*/) {}

    bool insert(Vbid vbid) { return listed_.insert(vbid).second; }
    void eraseOldest(Vbid vbid) { listed_.erase(vbid); }

  private:
    Container listed_;
};

class SetLookup : public NodeLookup<std::set<Vbid>> {
  public:
    static constexpr std::string_view kName = "readyqueue-set";
    using NodeLookup::NodeLookup;
};

class HashLookup : public NodeLookup<std::unordered_set<Vbid>> {
  public:
    static constexpr std::string_view kName = "readyqueue-hash";
    using NodeLookup::NodeLookup;
};

class ListLookup {
  public:
    static constexpr std::string_view kName = "readyqueue-list";
    explicit ListLookup(size_t vbuckets) : listed_(vbuckets) {}

    bool insert(Vbid vbid) {
        if (listed_.contains(vbid)) {
            return false;
        }
        listed_.push(vbid);
        return true;
    }
    void eraseOldest(Vbid /*vbid*/) { listed_.pop(); }

  private:
    VbidRing listed_;
};

}  // namespace kv::options
