// How the ready queue knows whether a vBucket is in it (dcp_ready_queue.h).
//
//   bitmap  a bit per vBucket
//   set     std::set, as in the historic change: log n steps, and a node is allocated for each push
//   hash    std::unordered_set, which its review asked for: also a node for each push
//   list    a copy of the queue, searched from its front as before the change
//
// Contract: insert(vb) returns true if vb was not there; eraseOldest(vb) forgets vb, which is the
// oldest member. Neither fails. Called under the queue's mutex.
#pragma once

#include <new>
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
    [[nodiscard]] bool contains(Vbid vbid) const { return listed_[vbid.get()]; }

  private:
    std::vector<bool> listed_;
};

/// `Container`: std::set or std::unordered_set. A notification must not fail: members for which
/// there is no memory are in a bitmap instead.
template <class Container>
class NodeLookup {
  public:
    explicit NodeLookup(size_t vbuckets) : withoutNode_(vbuckets) {}

    bool insert(Vbid vbid) {
        try {
            return !isWithoutNode(vbid) && listed_.insert(vbid).second;
        } catch (const std::bad_alloc&) {
            withoutNode_.insert(vbid);
            ++countWithoutNode_;
            return true;
        }
    }
    void eraseOldest(Vbid vbid) {
        if (isWithoutNode(vbid)) {
            withoutNode_.eraseOldest(vbid);
            --countWithoutNode_;
        } else {
            listed_.erase(vbid);
        }
    }

  private:
    [[nodiscard]] bool isWithoutNode(Vbid vbid) const {
        return countWithoutNode_ != 0 && withoutNode_.contains(vbid);
    }

    Container listed_;
    BitmapLookup withoutNode_;
    size_t countWithoutNode_{0};
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
