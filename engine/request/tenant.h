// Tenant: a caller that shares the engine with others, and how much of it is theirs; priorities.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_
#define BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_

#include <limits>
#include <memory>
#include <string>

namespace beamwright::engine {

// Unset limits do not bind. Two objects of the same name are the same tenant; the later one's
// limits hold.
struct Tenant {
  std::string name;
  // Share of the engine while several tenants wait, relative to the others'.
  double weight = 1;
  // Sources a second in the long run, and at once after a pause.
  double rate = std::numeric_limits<double>::infinity();
  double burst = std::numeric_limits<double>::infinity();
  // At once.
  int max_running = std::numeric_limits<int>::max();  // sources
  int max_rows = std::numeric_limits<int>::max();     // hypotheses of the sources that run
  int max_waiting = std::numeric_limits<int>::max();  // sources
};

using TenantPtr = std::shared_ptr<const Tenant>;

// What a tenant has in the engine at a moment.
struct TenantLoad {
  std::string name;  // empty: everybody without a name
  int waiting = 0;
  int running = 0;
  int running_rows = 0;
  double waiting_cost = 0;  // rows times expected steps
};

// Of what waits of one tenant, a higher priority goes first most of the time; none ever starves.
inline constexpr int kHighestPriority = 1;
inline constexpr int kNormalPriority = 2;
inline constexpr int kLowestPriority = 3;

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_
