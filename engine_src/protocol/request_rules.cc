#include "protocol/request_rules.h"

#include <array>

namespace kv::protocol {

namespace {

constexpr uint64_t kNoExtras = 1;

constexpr uint64_t bytes(unsigned length) {
    return uint64_t{1} << length;
}

class RuleTable {
  public:
    constexpr RuleTable() {
        dataOps();
        sessionOps();
        adminOps();
        dcpOps();
    }
    [[nodiscard]] constexpr const RequestRule& at(Opcode opcode) const {
        return rules_[raw(opcode)];
    }

  private:
    constexpr void add(Opcode opcode, uint64_t extras, Part key, Part value) {
        rules_[raw(opcode)] = {extras, key, value, true};
    }
    constexpr void allowLongValues(std::initializer_list<Opcode> opcodes, size_t longest) {
        for (const Opcode opcode : opcodes) {
            rules_[raw(opcode)].longestValue = static_cast<uint32_t>(longest);
        }
    }
    /// A request about a document without a value: it has no datatype, and a CAS according to
    /// `cas`.
    constexpr void bringsNothing(std::initializer_list<Opcode> opcodes, Part cas) {
        for (const Opcode opcode : opcodes) {
            rules_[raw(opcode)].cas = cas;
            rules_[raw(opcode)].datatypes = Datatype::kRaw;
        }
    }
    constexpr void add(std::initializer_list<Opcode> opcodes, uint64_t extras, Part key,
                       Part value) {
        for (const Opcode opcode : opcodes) {
            add(opcode, extras, key, value);
        }
    }

    constexpr void dataOps() {
        using enum Part;
        add({Opcode::kGet, Opcode::kGetQ, Opcode::kGetK, Opcode::kGetKQ}, kNoExtras, Required,
            Forbidden);
        add({Opcode::kSet, Opcode::kSetQ, Opcode::kAdd, Opcode::kAddQ, Opcode::kReplace,
             Opcode::kReplaceQ},
            bytes(8), Required, Optional);
        add({Opcode::kDelete, Opcode::kDeleteQ}, kNoExtras, Required, Forbidden);
        add({Opcode::kIncrement, Opcode::kIncrementQ, Opcode::kDecrement, Opcode::kDecrementQ},
            bytes(20), Required, Forbidden);
        // Old clients do send an empty append, which is a no-op; the table allows it.
        add({Opcode::kAppend, Opcode::kAppendQ, Opcode::kPrepend, Opcode::kPrependQ}, kNoExtras,
            Required, Optional);
        add({Opcode::kTouch, Opcode::kGat, Opcode::kGatQ, Opcode::kGatK, Opcode::kGatKQ}, bytes(4),
            Required, Forbidden);
        add(Opcode::kGetLocked, kNoExtras | bytes(4), Required, Forbidden);
        add(Opcode::kUnlockKey, kNoExtras, Required, Forbidden);
        add({Opcode::kGetMeta, Opcode::kGetMetaQ}, kNoExtras | bytes(1), Required, Forbidden);
        add({Opcode::kSetWithMeta, Opcode::kSetWithMetaQ, Opcode::kAddWithMeta,
             Opcode::kAddWithMetaQ},
            bytes(24) | bytes(28), Required, Optional);
        add({Opcode::kDeleteWithMeta, Opcode::kDeleteWithMetaQ}, bytes(24) | bytes(28), Required,
            Forbidden);
        bringsNothing({Opcode::kGet, Opcode::kGetQ, Opcode::kGetK, Opcode::kGetKQ, Opcode::kTouch,
                       Opcode::kGat, Opcode::kGatQ, Opcode::kGatK, Opcode::kGatKQ,
                       Opcode::kGetLocked, Opcode::kGetMeta, Opcode::kGetMetaQ},
                      Forbidden);
        bringsNothing({Opcode::kUnlockKey}, Required);
        add(Opcode::kSubdocMultiLookup, kNoExtras | bytes(1), Required, Required);
        bringsNothing({Opcode::kSubdocMultiLookup}, Forbidden);
        allowLongValues({Opcode::kSet, Opcode::kSetQ, Opcode::kAdd, Opcode::kAddQ, Opcode::kReplace,
                         Opcode::kReplaceQ, Opcode::kAppend, Opcode::kAppendQ, Opcode::kPrepend,
                         Opcode::kPrependQ, Opcode::kSetWithMeta, Opcode::kSetWithMetaQ,
                         Opcode::kAddWithMeta, Opcode::kAddWithMetaQ},
                        kMaxValueLength);
    }

    constexpr void sessionOps() {
        using enum Part;
        add({Opcode::kNoop, Opcode::kVersion, Opcode::kQuit, Opcode::kQuitQ,
             Opcode::kSaslListMechs},
            kNoExtras, Forbidden, Forbidden);
        add(Opcode::kVerbosity, bytes(4), Forbidden, Forbidden);
        add(Opcode::kHello, kNoExtras, Optional, Optional);
        add({Opcode::kSaslAuth, Opcode::kSaslStep}, kNoExtras, Required, Optional);
        add(Opcode::kSelectBucket, kNoExtras, Required, Forbidden);
        add(Opcode::kGetClusterConfig, kNoExtras | bytes(16), Forbidden, Forbidden);
        add(Opcode::kGetErrorMap, kNoExtras, Forbidden, Required);
    }

    constexpr void adminOps() {
        using enum Part;
        add(Opcode::kStat, kNoExtras, Optional, Optional);
        add({Opcode::kFlush, Opcode::kFlushQ}, kNoExtras | bytes(4), Forbidden, Forbidden);
        add(Opcode::kGetVBucket, kNoExtras, Forbidden, Forbidden);
        // "async=0": answer when it is done. The engine always does.
        add(Opcode::kDelVBucket, kNoExtras, Forbidden, Optional);
        add(Opcode::kSetClusterConfig, kNoExtras | bytes(16), Optional, Required);
        allowLongValues({Opcode::kSetClusterConfig}, kMaxConfigLength);
        add(Opcode::kSetVBucket, kNoExtras | bytes(1) | bytes(4), Forbidden, Optional);
        add({Opcode::kGetFailoverLog, Opcode::kListBuckets, Opcode::kGetRandomKey}, kNoExtras,
            Forbidden, Forbidden);
        add(Opcode::kObserve, kNoExtras, Forbidden, Required);
        add(Opcode::kObserveSeqno, kNoExtras, Forbidden, Required);
        add(Opcode::kSeqnoPersistence, bytes(8), Forbidden, Forbidden);
        add(Opcode::kGetAllVBSeqnos, kNoExtras | bytes(4), Forbidden, Forbidden);
        add(Opcode::kGetReplica, kNoExtras, Required, Forbidden);
        add(Opcode::kGetKeys, kNoExtras | bytes(4), Required, Forbidden);
        bringsNothing({Opcode::kGetReplica, Opcode::kGetRandomKey, Opcode::kGetKeys}, Forbidden);
    }

    constexpr void dcpOps() {
        using enum Part;
        add(Opcode::kDcpOpen, bytes(8), Required, Optional);
        add(Opcode::kDcpStreamReq, bytes(48), Forbidden, Optional);
        add({Opcode::kDcpCloseStream, Opcode::kDcpGetFailoverLog, Opcode::kDcpNoop}, kNoExtras,
            Forbidden, Forbidden);
        add(Opcode::kDcpBufferAck, bytes(4), Forbidden, Forbidden);
        add(Opcode::kDcpControl, kNoExtras, Required, Required);
        // The messages of a producer.
        add(Opcode::kDcpSnapshotMarker, bytes(1) | bytes(20), Forbidden, Optional);
        add(Opcode::kDcpMutation, bytes(31), Required, Optional);
        allowLongValues({Opcode::kDcpMutation}, kMaxValueLength);
        add(Opcode::kDcpDeletion, bytes(18) | bytes(21), Required, Forbidden);
        add(Opcode::kDcpExpiration, bytes(20), Required, Forbidden);
        add(Opcode::kDcpStreamEnd, bytes(4), Forbidden, Forbidden);
    }

    std::array<RequestRule, 256> rules_{};
};

constexpr RuleTable kRules;
static_assert(kRules.at(Opcode::kSet).extras == 256 &&
              !kRules.at(Opcode::kSubdocMultiMutation).known);

constexpr bool extrasAllowed(const RequestRule& rule, uint8_t length) {
    return length < 64 && ((rule.extras >> length) & 1U) != 0;
}

}  // namespace

const RequestRule& ruleOf(Opcode opcode) noexcept {
    return kRules.at(opcode);
}

Violation validate(const FrameView& frame) noexcept {
    const RequestRule& rule = ruleOf(frame.header.opcode);
    if (!rule.known) {
        return Violation::UnknownOpcode;
    }
    if (!extrasAllowed(rule, frame.header.extrasLength)) {
        return Violation::ExtrasLength;
    }
    if (frame.key.empty() ? rule.key == Part::Required : rule.key == Part::Forbidden) {
        return frame.key.empty() ? Violation::KeyMissing : Violation::KeyUnexpected;
    }
    // The frame limits agent names and statistics groups; the protocol limits documents.
    if (frame.key.size() > kMaxKeyLength && rule.key == Part::Required) {
        return Violation::KeyTooLong;
    }
    if (frame.value.empty() ? rule.value == Part::Required : rule.value == Part::Forbidden) {
        return frame.value.empty() ? Violation::ValueMissing : Violation::ValueUnexpected;
    }
    if (frame.value.size() > rule.longestValue) {
        return Violation::ValueTooLong;
    }
    // Clients send the JSON bit whatever HELLO answered. Compressed values and xattrs are never
    // negotiated: stored as plain bytes they would reach the next client as something else.
    if ((frame.header.datatype & ~rule.datatypes) != 0) {
        return Violation::Datatype;
    }
    if (frame.header.cas == 0 ? rule.cas == Part::Required : rule.cas == Part::Forbidden) {
        return frame.header.cas == 0 ? Violation::CasMissing : Violation::CasUnexpected;
    }
    return Violation::None;
}

std::string_view toString(Violation violation) noexcept {
    switch (violation) {
        case Violation::None:
            return "Ok";
        case Violation::UnknownOpcode:
            return "Unknown command";
        case Violation::ExtrasLength:
            return "Invalid arguments: extras length";
        case Violation::KeyMissing:
            return "Invalid arguments: key required";
        case Violation::KeyUnexpected:
            return "Invalid arguments: key not allowed";
        case Violation::KeyTooLong:
            return "Invalid arguments: key too long";
        case Violation::ValueMissing:
            return "Invalid arguments: value required";
        case Violation::ValueUnexpected:
            return "Invalid arguments: value not allowed";
        case Violation::ValueTooLong:
            return "Too large.";
        case Violation::Datatype:
            return "Invalid arguments: datatype not negotiated, or not allowed here";
        case Violation::CasMissing:
            return "Invalid arguments: CAS required";
        case Violation::CasUnexpected:
            return "Invalid arguments: CAS not allowed";
    }
    return "Invalid arguments";
}

}  // namespace kv::protocol
