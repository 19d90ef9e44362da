// ByteBuffer: growable raw bytes of a connection (a partial frame, unsent answers) or of a
// front-end thread.
//
// Memory comes from malloc, not operator new: connection buffers belong to no bucket and must never
// be charged to the bucket that is bound to the thread. Threads: not thread-safe; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "protocol/frame.h"

namespace kv::server {

class ByteBuffer {
  public:
    [[nodiscard]] protocol::Bytes view() const { return {data_.get() + begin_, end_ - begin_}; }
    [[nodiscard]] size_t size() const { return end_ - begin_; }
    [[nodiscard]] bool empty() const { return begin_ == end_; }
    [[nodiscard]] size_t capacity() const { return capacity_; }

    /// Returns room for `count` bytes behind the content, valid until the next call. Throws
    /// std::bad_alloc.
    uint8_t* reserve(size_t count) {
        if (capacity_ - end_ < count) [[unlikely]] {
            makeRoom(count);
        }
        return data_.get() + end_;
    }
    /// Appends `count` bytes, which were written at the address that reserve() returned.
    void commit(size_t count) { end_ += count; }

    void append(protocol::Bytes bytes) {
        if (!bytes.empty()) {
            std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
            commit(bytes.size());
        }
    }
    /// Drops `count` bytes at the front.
    void consume(size_t count) {
        begin_ += count;
        if (begin_ == end_) {
            begin_ = end_ = 0;
        }
    }
    void clear() { begin_ = end_ = 0; }
    /// Frees the memory if there is no content and more than `keep` bytes are held.
    void releaseAbove(size_t keep) {
        if (empty() && capacity_ > keep) {
            data_.reset();
            begin_ = end_ = capacity_ = 0;
        }
    }

  private:
    struct Free {
        void operator()(uint8_t* memory) const { std::free(memory); }
    };

    void makeRoom(size_t count) {
        if (begin_ > 0) {
            std::memmove(data_.get(), data_.get() + begin_, size());
            end_ -= begin_;
            begin_ = 0;
        }
        if (capacity_ - end_ >= count) {
            return;
        }
        const size_t wanted = std::max(end_ + count, capacity_ + capacity_ / 2);
        auto* grown = static_cast<uint8_t*>(std::realloc(data_.get(), wanted));
        if (grown == nullptr) {
            throw std::bad_alloc();
        }
        static_cast<void>(data_.release());  // realloc took ownership
        data_.reset(grown);
        capacity_ = wanted;
    }

    std::unique_ptr<uint8_t, Free> data_;
    size_t begin_{0};
    size_t end_{0};
    size_t capacity_{0};
};

}  // namespace kv::server
