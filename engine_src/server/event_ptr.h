// Owning handles for the objects of libevent.
#pragma once

#include <event2/event.h>

#include <memory>

namespace kv::server {

struct FreeEvent {
    void operator()(event* e) const { event_free(e); }
    void operator()(event_base* base) const { event_base_free(base); }
};
using EventPtr = std::unique_ptr<event, FreeEvent>;
using EventBasePtr = std::unique_ptr<event_base, FreeEvent>;

}  // namespace kv::server
