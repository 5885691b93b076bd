#include "server/http/admin.h"

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
  JsonWriter json;
  json.BeginObject();
  json.Key("waiting").Int(load.waiting);
  json.Key("running").Int(load.running);
  json.Key("rows").Int(load.rows);
  json.Key("max_rows").Int(load.max_rows);
  json.Key("bytes").Int(load.bytes);
  json.Key("max_bytes").Int(load.max_bytes);
  json.Key("threads").Int(load.num_threads);
  json.Key("waiting_for_memory").Int(load.memory.waiting);
  json.Key("oldest_wait_for_memory_ms").Int(absl::ToInt64Milliseconds(load.memory.oldest_wait));
  json.Key("bytes_waited_for").Int(load.memory.bytes_waited_for);
  json.Key("streams").Int(load.memory.streams);
  json.Key("stream_bytes").Int(load.memory.stream_bytes);
  json.Key("oldest_wait_ms").Int(absl::ToInt64Milliseconds(load.oldest_wait));
  json.Key("turn_ms").Int(absl::ToInt64Milliseconds(load.turn));
  json.Key("tenants").BeginArray();
  for (const engine::TenantLoad& tenant : engine_.Tenants()) {
    json.BeginObject();
    json.Key("name").String(tenant.name);
    json.Key("waiting").Int(tenant.waiting);
    json.Key("running").Int(tenant.running);
    json.Key("running_rows").Int(tenant.running_rows);
    json.Key("waiting_cost").Int(tenant.waiting_cost);
    json.EndObject();
  }
  json.EndArray().EndObject();
  HttpReply reply = JsonReply(json);
  reply.body += '\n';
  return reply;
}

}  // namespace beamwright::http
