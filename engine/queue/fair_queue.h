// FairQueue: what waits for the engine, and who goes next. It knows no thread, no clock and no
// model: times are given, and what is queued is a Ticket with its price.
//
// Three choices are nested. Tenants share by deficit round robin: each round a tenant may spend, in
// proportion to its weight, on the cost of its requests, and who has overdrawn waits until the
// rounds have paid for it. Of a tenant, priorities alternate 16 : 4 : 1. Of a priority, calls take
// turns source by source, so that a call of thousands does not stand before a call of one. So
// nothing that may run ever starves.
//
// Choice and room are apart. The choice names the next ticket; VerdictOn says whether it fits. A
// tenant at its running limits is passed over. A ticket that needs more rows than are free is
// waited for: rows are free again after a few steps, and a wide beam is not overtaken for ever by
// narrow ones. A ticket that needs more bytes is set aside, and others pass it: bytes may be held
// for minutes, by streams. Where it waits for running calls, kMostPasses others pass it; where it
// waits for streams to end, holding up the calls would not help it, and any number may pass.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_
#define BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request/cancel_flag.h"
#include "engine/request/tenant.h"

namespace beamwright::engine {

// A request in the queue; derived from by what is to be queued.
struct Ticket {
  virtual ~Ticket() = default;

  TenantPtr tenant;  // null: that of everybody without a name
  int priority = kNormalPriority;
  uint64_t call = 0;          // 0: a call of its own
  int rows = 1;               // while it runs, of its tenant's
  bool is_stream = false;     // if not, rows are also of the engine's
  int64_t running_bytes = 0;  // likewise
  int64_t waiting_bytes = 0;  // while it waits
  double cost = 1;            // rows x steps expected; at least 1
  absl::Time accepted;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const CancelFlag> cancelled;  // may be null
};

struct QueueLimits {
  // While calls wait, half of it at most is for streams; streams beyond that take no call's place.
  int max_requests = 4096;
  int64_t max_rows = int64_t{1} << 40;
  int64_t max_bytes = int64_t{1} << 30;  // Ticket::waiting_bytes
};

// Not thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const QueueLimits& limits) : limits_(limits) {}

  // Moves from `ticket` unless it refuses: ResourceExhausted with the reason
  // (status/error_details.h) and, where that is known, the time until there is room.
  absl::Status Push(std::unique_ptr<Ticket>& ticket, absl::Time now);

  // How many tickets pass one that waits for bytes of running calls.
  static constexpr int kMostPasses = 64;

  struct Room {
    int rows = 0;
    int64_t bytes = 0;
    // Of the bytes, those that streams may take.
    int64_t stream_bytes = std::numeric_limits<int64_t>::max();
    // The bytes that there would be if all running calls had ended, and streams went on.
    int64_t bytes_without_calls = std::numeric_limits<int64_t>::max();
  };
  // The next one that fits into `room`, which from now on counts as running; null if there is none.
  std::unique_ptr<Ticket> Pop(const Room& room);
  // One that Pop gave has ended, of this tenant and with so many rows.
  void Ended(const TenantPtr& tenant, int rows);

  // Those that are cancelled or past their deadline, wherever they stand.
  std::vector<std::unique_ptr<Ticket>> TakeDead(absl::Time now);

  int size() const { return size_; }
  // Of them, those that are no streams.
  int num_calls() const { return size_ - num_streams_; }
  // Calls are refused because there are too many requests.
  bool is_full() const { return PlacesTaken() >= limits_.max_requests; }

  // Those that others pass because they wait for bytes.
  struct Aside {
    int size = 0;
    absl::Time oldest = absl::InfiniteFuture();  // when the first of them was accepted
    int64_t bytes = 0;                           // that it needs
  };
  Aside aside() const;
  // By priority, the highest first.
  const std::array<int, kLowestPriority>& sizes() const { return sizes_; }
  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }
  double cost() const;  // of all that wait
  // When the one that waits longest was accepted; infinite future if none waits.
  absl::Time oldest() const;

  // Cost of what goes before a request of this tenant and cost if it is queued now, at most: all
  // that waits, or fewer if the tenant's share lets it pass.
  double CostAhead(const TenantPtr& tenant, double cost) const;

  // Of all tenants that wait or run, by name.
  std::vector<TenantLoad> Tenants() const;

 private:
  static constexpr int kLevels = kLowestPriority;

  struct Call {
    uint64_t id;
    std::list<std::unique_ptr<Ticket>> line;  // first come, first served
  };
  using Ring = std::list<Call>;
  // Requests of a tenant and a priority.
  struct Level {
    Ring calls;  // the first is next
    std::map<uint64_t, Ring::iterator> by_id;
    int credit = 0;
  };
  struct Party {
    Tenant limits;
    std::array<Level, kLevels> levels;
    int waiting = 0;  // in lines and aside
    int in_lines = 0;
    int running = 0;
    int running_rows = 0;
    double waiting_cost = 0;
    double credit = 0;
    uint64_t epoch = 0;
    double tokens = 0;  // of the rate
    absl::Time filled = absl::InfinitePast();
  };

  // Chosen, and paid for by its party, but there were not the bytes.
  struct SetAside {
    std::unique_ptr<Ticket> ticket;
    Party* party;
    int passed = 0;
  };
  enum class Verdict { kFits, kWaitsForRows, kWaitsForCalls, kWaitsForStreams };

  Party& PartyOf(const Ticket& ticket);
  // Of max_requests, as calls count them.
  int PlacesTaken() const { return size_ - std::max(0, num_streams_ - limits_.max_requests / 2); }
  absl::Status CheckPlaces(const Ticket& ticket) const;
  absl::Status CheckTenant(const Ticket& ticket, Party& party, absl::Time now) const;

  static Verdict VerdictOn(const Ticket& ticket, const Room& room);
  static int NextLevel(const Party& party);
  static const Ticket& Front(const Party& party);
  static bool MayRun(const Party& party, const Ticket& ticket);
  Party* NextParty();
  // The front of the party's lines, which has had its turn.
  std::unique_ptr<Ticket> Choose(Party& party);
  // The first that is aside and fits. True: one that is aside must go first and does not fit.
  bool PopAside(const Room& room, std::unique_ptr<Ticket>& ticket);
  // It counts as running.
  std::unique_ptr<Ticket> Run(Party& party, std::unique_ptr<Ticket> ticket);
  // Takes `at` out of its line; the caller knows where it stands.
  std::unique_ptr<Ticket> Unlink(Party& party, Level& level, Ring::iterator call,
                                 std::list<std::unique_ptr<Ticket>>::iterator at);
  // It waits no longer.
  void CountOut(Party& party, const Ticket& ticket);

  const QueueLimits limits_;
  std::map<std::string, Party> parties_;  // by the tenant's name
  std::list<Party*> ring_;                // those with lines; the first is looked at first
  std::list<SetAside> aside_;             // in the order of their choice
  double largest_cost_ = 1;               // of this epoch
  uint64_t epoch_ = 1;                    // ends when nobody waits: debts are forgotten
  uint64_t next_own_call_ = ~uint64_t{0};
  int size_ = 0;
  int num_streams_ = 0;  // of them
  std::array<int, kLevels> sizes_{};
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_
