// FairQueue: the requests that wait for the engine, and which of them is next. It knows no thread,
// no clock and no model: times are given, and what is queued is a Ticket with its price.
//
// Three choices are nested. Tenants share by deficit round robin: each round a tenant may spend, in
// proportion to its weight, on the cost of its requests, and a tenant that has overdrawn waits
// until the rounds have paid for it. Of a tenant, priorities alternate 16 : 4 : 1. Of a priority,
// clients take turns source by source, and clients without a running source go before clients with
// one. A turn is due when a fair share of the work since the client began to wait would have paid
// for its source (weighted fair queuing): equal sources go in the order of their arrival, and a
// short source does not wait for the turns of a hundred long ones. Some room is kept for clients
// without a running source (Room): so a client with thousands of sources delays a call of one by
// one source, and not until all that it runs has ended. A client is a connection, or a call where
// that is unknown. The calls of a client take turns by the same rules, and half of the room that is
// kept is for calls without a running source. Where all that runs takes its steps together, a
// client that runs one source waits for every row of a client that runs hundreds: Room bounds those
// too. No request that may run starves.
//
// Choice and room are separate. The choice names the next ticket; VerdictOn says whether it fits. A
// tenant at its running limits is passed over. A ticket that needs more rows than are free is
// waited for: rows are free again after a few steps, and a wide beam is not overtaken for ever by
// narrow ones; but tickets of an eighth of the cost of what runs may pass it, in rows that are kept
// for them. A ticket that needs more bytes is set aside, and others pass it: bytes may be held for
// minutes, by streams. Where it waits for running calls, kMostPasses others pass it; where it waits
// for streams to end, holding up the calls would not help it, and any number may pass.
#ifndef BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_
#define BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request/tenant.h"

namespace beamwright::engine {

// A request in the queue; requests derive from it.
struct Ticket {
  virtual ~Ticket() = default;

  TenantPtr tenant;  // null: the tenant of callers without a name
  int priority = kNormalPriority;
  uint64_t call = 0;          // 0: a call with one request
  int num_sources = 1;        // of its call, some of which may still come
  uint64_t client = 0;        // 0: the call is its own client
  int rows = 1;               // while it runs, of its tenant's
  bool is_stream = false;     // if not, rows are also of the engine's
  int wide_rows = 0;          // of Room::rows_of_wide; Pop makes it 0 if its client has no other
  bool is_of_crowd = false;   // set by Pop: its client wants more rows than Room::rows_of_client
  int64_t running_bytes = 0;  // while it runs, of the engine's budget
  int64_t waiting_bytes = 0;  // while it waits
  double cost = 1;            // rows x steps expected; at least 1
  absl::Time accepted;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const CancelFlag> cancelled;  // may be null
};

struct QueueLimits {
  // While calls wait, half of it at most is for streams; streams beyond that take no call's place.
  // If clients have many in it, an eighth more is for those that have nothing there: so a client of
  // thousands does not keep all others out, nor do some together.
  int max_requests = 4096;
  int64_t max_rows = int64_t{1} << 40;
  int64_t max_bytes = int64_t{1} << 30;  // Ticket::waiting_bytes
};

// Not thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const QueueLimits& limits) : limits_(limits) {}

  // Moves from `ticket` unless it refuses: ResourceExhausted with the reason
  // (status/fault.h) and, where that is known, the time until there is room.
  absl::Status Push(std::unique_ptr<Ticket>& ticket, absl::Time now);

  // A step has work for each source besides that for its rows.
  static constexpr int kNarrow = 8;
  // How many tickets pass one that waits for bytes of running calls.
  static constexpr int kMostPasses = 64;

  struct Room {
    int rows = 0;
    int64_t bytes = 0;
    // Of these, those that are kept for clients of which no source runs.
    int rows_kept = 0;
    int64_t bytes_kept = 0;
    // Of the bytes, those that streams may take.
    int64_t stream_bytes = std::numeric_limits<int64_t>::max();
    // The bytes that there would be if all running calls had ended, and streams went on.
    int64_t bytes_without_calls = std::numeric_limits<int64_t>::max();
    // Of a client with more than one source, streams aside; a source counts as kNarrow rows at
    // least.
    int rows_of_client = std::numeric_limits<int>::max();
    // Of such clients, all wide rows that run; any number if they are of one ticket. Steps with
    // more of them would be long, and others wait for them.
    int rows_of_wide = std::numeric_limits<int>::max();
    // Tickets of more cost leave rows_kept_for_light free; where one waits for rows, tickets of
    // this cost at most may pass it, with rows_of_light rows in all.
    double light_cost = 0;
    int rows_kept_for_light = 0;
    int rows_of_light = 0;
    // Tickets of more cost have rows_of_heavy rows in all.
    double heavy_cost = std::numeric_limits<double>::infinity();
    int rows_of_heavy = std::numeric_limits<int>::max();
    // Tickets of more cost are passed over.
    double max_cost = std::numeric_limits<double>::infinity();
  };
  // The next one that fits into `room`, which from now on counts as running; null without one.
  std::unique_ptr<Ticket> Pop(const Room& room);
  // A ticket of Pop has ended: its tenant, rows, call and client, whether it was a stream, and the
  // wide rows that Pop left it.
  // Returns whether it was a source that came alone: its client had no other one meanwhile, and
  // its call none.
  bool Ended(const TenantPtr& tenant, int rows, uint64_t call = 0, uint64_t client = 0,
             bool is_stream = false, int wide_rows = 0, int num_sources = 1);

  // Takes out the tickets that are cancelled or past their deadline.
  std::vector<std::unique_ptr<Ticket>> TakeDead(absl::Time now);

  int size() const { return size_; }
  // Waiting tickets that are not streams.
  int num_calls() const { return size_ - num_streams_; }
  // All calls are refused because there are too many requests.
  bool is_full() const { return PlacesTaken(/*is_newcomer=*/true) >= limits_.max_requests; }

  // The tickets that were set aside: others pass them because they wait for bytes.
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
  // When the ticket that waits longest was accepted; infinite future without one.
  absl::Time oldest() const;

  // Cost of what goes before the ticket if it is queued now, at most. Of its client: what waits of
  // its own call, and one turn of each other call for each of these and for itself. Of its level:
  // one turn of each other client whose turn is due before the ticket's, for each of all these and
  // for itself, or none for the first if all other clients have sources running and its own has
  // none. Of the other levels and tenants: what their shares let pass meanwhile.
  double CostAhead(const Ticket& ticket) const;

  // Of all tenants that wait or run, by name.
  std::vector<TenantLoad> Tenants() const;

 private:
  static constexpr int kLevels = kLowestPriority;
  // Turns of the priorities while all of them wait.
  static constexpr std::array<int, 3> kTurns = {16, 4, 1};

  // Clients or calls that take turns. A member has a number `id` and a flag `runs`.
  template <typename Member>
  struct Rings {
    using Ring = std::list<Member>;
    using At = typename Ring::iterator;
    Ring waiting;  // members without a running source, by their tags; the first is next
    Ring running;  // the other members, which are next when `waiting` is empty
    std::map<uint64_t, At> by_id;
    double work = 0;  // that each member would have got by now, if all got the same

    bool empty() const { return by_id.empty(); }
    Ring& ring(bool runs) { return runs ? running : waiting; }
    At begin() { return waiting.empty() ? running.begin() : waiting.begin(); }
    // The one with the number; a new one comes last.
    At Find(uint64_t id, bool runs) {
      const auto known = by_id.find(id);
      if (known != by_id.end()) {
        return known->second;
      }
      Ring& own = ring(runs);
      own.emplace_back();
      own.back().id = id;
      own.back().runs = runs;
      return by_id.emplace(id, std::prev(own.end())).first->second;
    }
    // The member waits from now on in the ring that `runs` says: it is new, had its turn, or
    // changes the ring.
    void Begin(At at, bool runs) {
      at->start = work;
      Settle(at, runs);
    }
    // The member's next ticket has changed.
    void Renew(At at) {
      if (at->tag != at->start + at->next_cost()) {
        Settle(at, at->runs);
      }
    }
    // Moves the member to where its tag belongs, behind equal tags.
    void Settle(At at, bool runs) {
      Ring& to = ring(runs);
      to.splice(to.end(), ring(at->runs), at);
      at->runs = runs;
      at->tag = at->start + at->next_cost();
      At before = at;
      while (before != to.begin() && std::prev(before)->tag > at->tag) {
        --before;
      }
      to.splice(before, to, at);
    }
    void Erase(At at) {
      by_id.erase(at->id);
      ring(at->runs).erase(at);
    }
  };
  using Line = std::list<std::unique_ptr<Ticket>>;  // first come, first served
  struct Call {
    uint64_t id = 0;
    bool runs = false;  // some of its sources
    double start = 0;   // Rings::work when it began to wait
    double tag = 0;     // and when its turn is due
    Line line;
    double next_cost() const { return line.front()->cost; }
  };
  struct Client {
    uint64_t id = 0;
    bool runs = false;
    double start = 0;
    double tag = 0;
    Rings<Call> calls;
    double next_cost() { return calls.begin()->next_cost(); }
    int size = 0;     // tickets
    double cost = 0;  // of all
    double turn_cost() const { return size == 0 ? 0 : cost / size; }
  };
  // Where a ticket is.
  struct Place {
    Rings<Client>::At client;
    Rings<Call>::At call;
    Line::iterator at;
  };
  // Requests of a tenant and a priority.
  struct Level {
    Rings<Client> clients;
    int credit = 0;
    int size = 0;        // tickets
    double cost = 0;     // of all
    double sharing = 0;  // clients that share the work, also lately

    bool empty() const { return clients.empty(); }
    void Add(Rings<Client>::At client, Rings<Call>::At call, std::unique_ptr<Ticket> ticket);
    // Members that have none left go as well. num_clients: that share the work if the ticket had
    // its turn; 0: it had none.
    std::unique_ptr<Ticket> Remove(const Place& place, double num_clients);
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

  // A ticket that was chosen and charged to its party, but whose bytes were not free.
  struct SetAside {
    std::unique_ptr<Ticket> ticket;
    Party* party;
    int passed = 0;
  };
  enum class Verdict { kFits, kWaitsForRows, kWaitsForHeavy, kWaitsForCalls, kWaitsForStreams };

  static size_t LevelOf(const Ticket& ticket);
  Party& PartyOf(const Ticket& ticket);
  // By what clients are counted: client or call; 0 for a call with one request and no client.
  static uint64_t ClientOf(uint64_t call, uint64_t client);
  static uint64_t ClientOf(const Ticket& ticket) { return ClientOf(ticket.call, ticket.client); }
  // Of max_requests, as calls count them.
  int PlacesTaken(bool is_newcomer) const {
    return size_ - std::max(0, num_streams_ - limits_.max_requests / 2) -
           (is_newcomer ? std::min(num_excessive_, limits_.max_requests / 8) : 0);
  }
  // Most that a client has in the queue without an excess.
  int MostOfAClient() const { return std::max(1, limits_.max_requests / 64); }
  // No ticket of its client waits or runs.
  bool IsNewcomer(const Ticket& ticket) const { return by_client_.count(ClientOf(ticket)) == 0; }
  absl::Status CheckPlaces(const Ticket& ticket) const;
  absl::Status CheckTenant(const Ticket& ticket, Party& party, absl::Time now) const;

  // Against Room::rows_of_client.
  static int CountedRows(int rows, bool is_stream) {
    return is_stream ? 0 : std::max(rows, kNarrow);
  }
  static Verdict VerdictOn(const Ticket& ticket, const Room& room);
  // The ticket's client has rows running and must leave the room that is kept for other clients, or
  // half of it if the ticket's call has no rows running; or the client runs as many rows as it may.
  bool MustLeave(const Ticket& ticket, const Room& room) const;
  // Its client has no other ticket, and its call no other source.
  bool IsOnly(const Ticket& ticket) const;
  // The sources of its client, or of its call, want more rows together than a client may run.
  bool IsOfCrowd(const Ticket& ticket, const Room& room) const;
  // The next ticket of a level that need not leave; false without one.
  bool Next(Level& level, const Room& room, Place& next) const;
  // The same of a party, with its level; -1 without one.
  int Next(Party& party, const Room& room, Place& next) const;
  // By the tenant's limits.
  static bool MayRun(const Party& party, const Ticket& ticket);
  bool MayRun(Party& party, const Room& room) const;
  Party* NextParty(const Room& room);
  // The ticket, which has had its turn.
  std::unique_ptr<Ticket> Choose(Party& party, int level, const Place& place);
  // The first ticket set aside that fits. True: one of them must go first and does not fit.
  bool PopAside(const Room& room, std::unique_ptr<Ticket>& ticket);
  // The ticket counts as running from now on.
  std::unique_ptr<Ticket> Run(Party& party, const Room& room, std::unique_ptr<Ticket> ticket);
  // CostAhead, as if there were no other tenant.
  double CostAheadWithin(const Party& party, const Ticket& ticket) const;
  // Takes `at` out of its line; the caller knows where it stands.
  std::unique_ptr<Ticket> Unlink(Party& party, Level& level, const Place& place,
                                 double num_clients = 0);
  // The ticket does not wait any more.
  void CountOut(Party& party, const Ticket& ticket);
  // The client, or the call, has a running source from now on, or has none any more.
  static void SetRuns(Party& party, uint64_t client, bool runs);
  static void SetRuns(Party& party, uint64_t client, uint64_t call, bool runs);
  std::vector<std::unique_ptr<Ticket>> TakeDeadOf(Party& party, Level& level, absl::Time now);

  const QueueLimits limits_;
  // Of clients and calls with a number that have some.
  struct Counts {
    int waiting = 0;
    int running = 0;
    int taken = 0;  // by Pop, since it had none
    // CountedRows of all that run, and of all that wait.
    int rows = 0;
    int64_t waiting_rows = 0;
  };
  using CountsById = std::unordered_map<uint64_t, Counts>;
  static int CountRunning(const CountsById& counts, uint64_t id) {
    const auto found = counts.find(id);
    return found == counts.end() ? 0 : found->second.running;
  }
  static void EraseIfNone(CountsById& counts, CountsById::iterator at) {
    if (at->second.waiting + at->second.running == 0) {
      counts.erase(at);
    }
  }
  CountsById by_client_;
  CountsById by_call_;
  std::map<std::string, Party> parties_;  // by the tenant's name
  std::list<Party*> ring_;                // those with lines; the first is looked at first
  std::list<SetAside> aside_;             // in the order of their choice
  double largest_cost_ = 1;               // of this epoch
  uint64_t epoch_ = 1;                    // ends when the queue is empty: debts are forgotten
  uint64_t next_own_call_ = ~uint64_t{0};
  int size_ = 0;
  int num_streams_ = 0;    // of them
  int wide_rows_ = 0;      // of those that run
  int num_excessive_ = 0;  // what clients have beyond MostOfAClient
  std::array<int, kLevels> sizes_{};
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_QUEUE_FAIR_QUEUE_H_
