#include "server/http/admin.h"

#include "absl/strings/str_cat.h"
#include "server/http/json.h"
#include "server/http/replies.h"

namespace beamwright::http {
namespace {

constexpr char kScheduler[] = "/debug/scheduler";

}  // namespace

HttpReply Admin::Handle(const HttpRequest& request) const {
  if (request.path != kScheduler) {
    return rest_.Handle(request);
  }
  const absl::StatusOr<access::Identity> identity = Admit(access_, request);
  if (!identity.ok()) {
    rest_.CountRefusal(request, identity.status());
    return ErrorReply(identity.status());
  }
  return request.method == "GET" || request.method == "HEAD"
             ? Scheduler()
             : WrongMethodReply(request.path, "GET");
}

HttpReply Admin::Scheduler() const {
  const engine::Engine::Load load = engine_.load();
  HttpReply reply;
  reply.body = absl::StrCat(
      "{\"waiting\":", load.waiting, ",\"running\":", load.running, ",\"rows\":", load.rows,
      ",\"max_rows\":", load.max_rows, ",\"threads\":", load.num_threads,
      ",\"oldest_wait_ms\":", absl::ToInt64Milliseconds(load.oldest_wait),
      ",\"turn_ms\":", absl::ToInt64Milliseconds(load.turn), ",\"tenants\":[");
  const char* comma = "";
  for (const engine::TenantLoad& tenant : engine_.Tenants()) {
    absl::StrAppend(&reply.body, comma, "{\"name\":");
    AppendQuoted(tenant.name, reply.body);
    absl::StrAppend(&reply.body, ",\"waiting\":", tenant.waiting, ",\"running\":", tenant.running,
                    ",\"running_rows\":", tenant.running_rows,
                    ",\"waiting_cost\":", tenant.waiting_cost, "}");
    comma = ",";
  }
  reply.body += "]}\n";
  return reply;
}

}  // namespace beamwright::http
