// The client operations of a vBucket: each takes the key's lock once, decides, and commits at most
// one change.
#include <algorithm>
#include <charconv>
#include <limits>

#include "bucket/vbucket.h"
#include "options/mutation.h"

namespace kv {

namespace {

constexpr uint8_t kJson = 1;
/// The CAS that readers see on a document that another client has locked.
constexpr Cas kLockedCas{std::numeric_limits<uint64_t>::max()};
constexpr uint32_t kDefaultLockSeconds = 15;
constexpr uint32_t kMaxLockSeconds = 30;
constexpr size_t kMaxDecimalDigits = 20;

OpResult resultOf(const ItemMeta& meta) {
    OpResult result;
    result.datatype = meta.datatype;
    result.flags = meta.flags;
    result.exptime = meta.exptime;
    result.cas = meta.cas;
    result.seqno = meta.seqno;
    result.number = meta.revSeqno;
    return result;
}

constexpr bool isSpace(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Parses a counter as memcached does, with strtoull: white space and a sign may precede the
/// number, anything after white space behind it is ignored, and a negative number is not accepted.
std::optional<uint64_t> parseDecimal(std::string_view text) {
    while (!text.empty() && isSpace(text.front())) {
        text.remove_prefix(1);
    }
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    uint64_t number = 0;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc() || (end != last && !isSpace(*end)) || (negative && number != 0)) {
        return std::nullopt;
    }
    return number;
}

BlobPtr decimalBlob(uint64_t number) {
    char digits[kMaxDecimalDigits];
    const auto written = std::to_chars(digits, digits + sizeof(digits), number);
    return Blob::create({digits, static_cast<size_t>(written.ptr - digits)});
}

uint64_t applyDelta(uint64_t number, const ArithmeticArgs& args) {
    if (args.increment) {
        return number + args.delta;
    }
    return number > args.delta ? number - args.delta : 0;
}

}  // namespace

OpResult VBucket::done(const QueueResult& queued) const {
    OpResult result;
    result.cas = queued.cas;
    result.seqno = queued.seqno;
    result.vbuuid = failoverLog_.uuid();
    return result;
}

void VBucket::expire(const Guard& guard, StoredValue& value, Notice& notice, const OpTime& now) {
    commit(guard, &value, value.key(),
           {.op = ItemOp::Expiration, .flags = value.flags(), .exptime = now.seconds}, notice, now);
}

StoredValue* VBucket::live(const Guard& guard, StoredValue* found, Notice& notice,
                           const OpTime& now) {
    if (found == nullptr || found->isDeleted()) {
        return nullptr;
    }
    if (found->isExpired(now.seconds)) [[unlikely]] {
        expire(guard, *found, notice, now);
        sink_.onExpiredOnAccess();
        return nullptr;
    }
    return found;
}

void VBucket::openLock(StoredValue& value) {
    if (value.isLocked()) [[unlikely]] {
        keyLocks_.unlock(value.key());
        value.setLocked(false);
    }
}

bool VBucket::isLocked(StoredValue& value, const OpTime& now) {
    if (!value.isLocked()) [[likely]] {
        return false;
    }
    if (keyLocks_.holder(value.key(), now.steady) != Cas{}) {
        return true;
    }
    value.setLocked(false);
    return false;
}

std::optional<OpStatus> VBucket::refuse(StoredValue& value, Cas cas, const OpTime& now) {
    if (isLocked(value, now)) [[unlikely]] {
        if (cas != keyLocks_.holder(value.key(), now.steady)) {
            return OpStatus::Locked;
        }
        return std::nullopt;
    }
    if (cas != Cas{} && cas != value.cas() && !options::mutated(options::Mutation::CasIgnored)) {
        return OpStatus::KeyExists;
    }
    return std::nullopt;
}

OpResult VBucket::read(StoredValue& value, const OpTime& now) {
    OpResult result;
    if (!value.isResident()) [[unlikely]] {
        result.status = OpStatus::WouldBlock;
        return result;
    }
    result.datatype = value.datatype();
    result.flags = value.flags();
    result.exptime = value.exptime();
    result.cas = isLocked(value, now) ? kLockedCas : value.cas();
    result.seqno = value.seqno();
    result.number = value.revSeqno();
    result.value = value.value();
    return result;
}

template <class Use>
OpResult VBucket::withLive(std::string_view key, const OpTime& now, Use use) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!isActive() && !options::mutated(options::Mutation::StaleRead)) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* value = live(guard, table_.find(guard, key), notice, now);
    return value != nullptr ? use(guard, *value, notice) : failed(OpStatus::KeyNotFound);
}

OpResult VBucket::get(std::string_view key, const OpTime& now) {
    return withLive(key, now,
                    [&](const Guard&, StoredValue& value, Notice&) { return read(value, now); });
}

OpResult VBucket::getMeta(std::string_view key, const OpTime& now,
                          const FindTombstone& findTombstone) {
    const Guard guard = table_.lock(key);
    if (!isActive()) {
        return failed(OpStatus::NotMyVbucket);
    }
    if (StoredValue* value = table_.find(guard, key)) {
        return metaOf(*value, now);
    }
    std::optional<ItemMeta> tombstone;
    const OpStatus status = findTombstone ? findTombstone(tombstone) : OpStatus::Ok;
    if (!tombstone) {
        return failed(status == OpStatus::Ok ? OpStatus::KeyNotFound : status);
    }
    OpResult result = resultOf(*tombstone);
    result.status = status;
    result.deleted = true;
    return result;
}

OpResult VBucket::observe(std::string_view key, const OpTime& now) {
    const Guard guard = table_.lock(key);
    if (const VbState state = state_.load(std::memory_order_relaxed);
        state != VbState::Active && state != VbState::Replica) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* value = table_.find(guard, key);
    return value != nullptr ? metaOf(*value, now) : failed(OpStatus::KeyNotFound);
}

OpResult VBucket::metaOf(StoredValue& value, const OpTime& now) {
    OpResult result = resultOf(value.meta());
    // An expired document counts as deleted, but removing it is not a reader's work.
    result.deleted = value.isDeleted() || value.isExpired(now.seconds);
    if (isLocked(value, now)) {
        result.cas = kLockedCas;
    }
    return result;
}

OpResult VBucket::getRandom(uint32_t position, uint32_t skip, std::string& key, const OpTime& now) {
    OpResult result = failed(OpStatus::KeyNotFound);
    bool taken = false;  // a visit ends after the bucket, not after the document
    const auto take = [&](const Guard&, StoredValue& value) {
        if (taken || value.isDeleted() || value.isExpired(now.seconds) || !value.isResident()) {
            return true;
        }
        key = value.key();
        result = read(value, now);
        taken = skip == 0;
        --skip;
        return !taken;
    };
    if (state() != VbState::Active) {
        return failed(OpStatus::NotMyVbucket);
    }
    table_.visit({position}, take);
    if (!result.ok() && position != 0) {
        table_.visit({}, take);
    }
    return result;
}

OpResult VBucket::getAndTouch(std::string_view key, uint32_t exptime, const OpTime& now) {
    return withLive(key, now, [&](const Guard& guard, StoredValue& value, Notice& notice) {
        if (isLocked(value, now)) {
            return failed(OpStatus::Locked);
        }
        OpResult result = read(value, now);
        if (result.ok() && value.exptime() != exptime) {
            const QueueResult queued = commit(guard, &value, key,
                                              {.flags = value.flags(),
                                               .exptime = exptime,
                                               .datatype = value.datatype(),
                                               .value = result.value},
                                              notice, now);
            result.exptime = exptime;
            result.cas = queued.cas;
            result.seqno = queued.seqno;
            result.vbuuid = failoverLog_.uuid();
        }
        return result;
    });
}

OpResult VBucket::touch(std::string_view key, uint32_t exptime, const OpTime& now) {
    OpResult result = getAndTouch(key, exptime, now);
    result.value = {};
    if (result.vbuuid == VbUuid{}) {
        result.vbuuid = failoverLog_.uuid();
    }
    return result;
}

OpResult VBucket::getAndLock(std::string_view key, uint32_t seconds, const OpTime& now) {
    return withLive(key, now, [&](const Guard&, StoredValue& value, Notice&) {
        if (isLocked(value, now)) {
            return failed(OpStatus::Locked);
        }
        OpResult result = read(value, now);
        if (result.ok()) {
            const uint32_t duration =
                    seconds == 0 || seconds > kMaxLockSeconds ? kDefaultLockSeconds : seconds;
            result.cas = keyLocks_.lock(key, now.steady,
                                        now.steady + uint64_t{duration} * 1'000'000'000);
            value.setLocked(true);
        }
        return result;
    });
}

OpResult VBucket::unlock(std::string_view key, Cas cas, const OpTime& now) {
    return withLive(key, now, [&](const Guard&, StoredValue& value, Notice&) {
        if (!isLocked(value, now)) {
            return failed(OpStatus::NotLocked);
        }
        if (keyLocks_.holder(key, now.steady) != cas) {
            return failed(OpStatus::Locked);
        }
        openLock(value);
        return OpResult();
    });
}

OpResult VBucket::store(std::string_view key, StoreMode mode, BlobPtr value, const StoreArgs& args,
                        const OpTime& now) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!isActive()) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* found = table_.find(guard, key);
    // An expired document is overwritten without a separate expiration: the new version is
    // sufficient.
    const bool present = found != nullptr && !found->isDeleted() && !found->isExpired(now.seconds);
    if (!present && (mode == StoreMode::Replace || args.cas != Cas{})) {
        live(guard, found, notice, now);
        return failed(OpStatus::KeyNotFound);
    }
    if (present) {
        if (mode == StoreMode::Add && !options::mutated(options::Mutation::AddOverwrites)) {
            return failed(OpStatus::KeyExists);
        }
        if (const auto refused = refuse(*found, args.cas, now)) {
            return failed(*refused);
        }
    }
    return done(commit(guard, found, key,
                       {.flags = args.flags,
                        .exptime = present && args.preserveExpiry ? found->exptime() : args.exptime,
                        .datatype = args.datatype,
                        .value = std::move(value)},
                       notice, now));
}

OpResult VBucket::concat(std::string_view key, Concat where, std::string_view value, Cas cas,
                         const OpTime& now, size_t mostBytes) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!isActive()) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* present = live(guard, table_.find(guard, key), notice, now);
    if (present == nullptr) {
        return failed(OpStatus::NotStored);
    }
    if (!present->isResident()) {
        return failed(OpStatus::WouldBlock);
    }
    const std::string_view old = present->value().view();
    if (old.size() + value.size() > std::min<size_t>(mostBytes, config_.maxValueBytes)) {
        return failed(OpStatus::TooBig);
    }
    if (const auto refused = refuse(*present, cas, now)) {
        return failed(*refused);
    }
    const size_t copied = old.size() + value.size();
    BlobPtr joined = where == Concat::Append ? Blob::create(old, value) : Blob::create(value, old);
    // Joined pieces are not known to be JSON.
    const auto datatype = static_cast<uint8_t>(present->datatype() & ~kJson);
    OpResult result = done(commit(guard, present, key,
                                  {.flags = present->flags(),
                                   .exptime = present->exptime(),
                                   .datatype = datatype,
                                   .value = std::move(joined)},
                                  notice, now));
    result.number = copied;
    return result;
}

OpResult VBucket::arithmetic(std::string_view key, const ArithmeticArgs& args, const OpTime& now) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!isActive()) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* found = table_.find(guard, key);
    StoredValue* present = live(guard, found, notice, now);
    uint64_t number = args.initial;
    // A number is JSON.
    Change change{.exptime = args.exptime, .datatype = kJson};
    if (present == nullptr) {
        if (!args.createIfMissing || args.cas != Cas{}) {
            return failed(OpStatus::KeyNotFound);
        }
        // Expiring may have replaced the StoredValue that `found` pointed to.
        found = table_.find(guard, key);
    } else {
        if (!present->isResident()) {
            return failed(OpStatus::WouldBlock);
        }
        if (const auto refused = refuse(*present, args.cas, now)) {
            return failed(*refused);
        }
        const auto old = parseDecimal(present->value().view());
        if (!old) {
            return failed(OpStatus::DeltaBadValue);
        }
        number = applyDelta(*old, args);
        change.flags = present->flags();
        change.exptime = present->exptime();
    }
    change.value = decimalBlob(number);
    OpResult result = done(commit(guard, found, key, std::move(change), notice, now));
    result.number = number;
    return result;
}

OpResult VBucket::remove(std::string_view key, Cas cas, const OpTime& now) {
    return withLive(key, now, [&](const Guard& guard, StoredValue& value, Notice& notice) {
        if (const auto refused = refuse(value, cas, now)) {
            return failed(*refused);
        }
        return done(commit(guard, &value, key,
                           {.op = ItemOp::Deletion, .flags = value.flags(), .exptime = now.seconds},
                           notice, now));
    });
}

}  // namespace kv
