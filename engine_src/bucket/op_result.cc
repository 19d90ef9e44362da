#include "bucket/op_result.h"

namespace kv {

std::string_view toString(OpStatus status) {
    switch (status) {
        case OpStatus::Ok:
            return "ok";
        case OpStatus::KeyNotFound:
            return "key not found";
        case OpStatus::KeyExists:
            return "key exists";
        case OpStatus::NotStored:
            return "not stored";
        case OpStatus::TooBig:
            return "too big";
        case OpStatus::NotMyVbucket:
            return "not my vbucket";
        case OpStatus::TmpFail:
            return "temporary failure";
        case OpStatus::NoMemory:
            return "no memory";
        case OpStatus::DeltaBadValue:
            return "not a number";
        case OpStatus::Locked:
            return "locked";
        case OpStatus::NotLocked:
            return "not locked";
        case OpStatus::WouldBlock:
            return "would block";
        case OpStatus::Invalid:
            return "invalid";
    }
    return "unknown";
}

}  // namespace kv
