#include "server/stats/stat_collector.h"

#include <new>
#include <utility>

namespace kv::server {

void StatJob::run() noexcept {
    try {
        answer_ = collectStats(server_, group_);
    } catch (const std::bad_alloc&) {
        answer_ = {protocol::Status::kEtmpfail, {}};
    }
}

std::shared_ptr<const StatJob> StatCollector::ask(std::string_view group,
                                                  std::shared_ptr<Waker> waker,
                                                  std::string_view user) {
    auto job = std::make_shared<StatJob>(server_, group, std::move(waker));
    thread_.ask(job, user);
    return job;
}

}  // namespace kv::server
