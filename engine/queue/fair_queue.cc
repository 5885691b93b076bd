#include "engine/queue/fair_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

namespace reason = status::reason;

// Turns of the priorities while all of them wait.
constexpr std::array<int, 3> kTurns = {16, 4, 1};

absl::Status Refused(const char* why, const std::string& message,
                     const std::string& tenant = std::string()) {
  status::Metadata metadata;
  if (!tenant.empty()) {
    metadata.emplace_back("tenant", tenant);
  }
  return status::WithReason(absl::ResourceExhaustedError(message), why, metadata);
}

bool IsDead(const Ticket& ticket, absl::Time now) {
  return ticket.deadline < now || (ticket.cancelled != nullptr && ticket.cancelled->cancelled());
}

size_t LevelOf(const Ticket& ticket) {
  return static_cast<size_t>(std::clamp(ticket.priority, kHighestPriority, kLowestPriority) -
                             kHighestPriority);
}

}  // namespace

FairQueue::Party& FairQueue::PartyOf(const Ticket& ticket) {
  static const Tenant nobody;
  const Tenant& tenant = ticket.tenant == nullptr ? nobody : *ticket.tenant;
  const auto [entry, fresh] = parties_.try_emplace(tenant.name);
  Party& party = entry->second;
  party.limits = tenant;
  party.tokens = fresh ? tenant.burst : std::min(party.tokens, tenant.burst);
  return party;
}

absl::Status FairQueue::CheckPlaces(const Ticket& ticket) const {
  if ((ticket.is_stream ? size_ : PlacesTaken()) >= limits_.max_requests) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: ", size_, " requests wait"));
  }
  if (ticket.is_stream && num_calls() > 0 &&
      num_streams_ >= std::max(1, limits_.max_requests / 2)) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: ", num_streams_,
                                " streams wait, which have half of its places while calls wait"));
  }
  // What is larger than the whole queue may still wait alone.
  if (size_ > 0 && rows_ + ticket.rows > limits_.max_rows) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: requests of ", rows_, " rows wait, and ",
                                limits_.max_rows, " are allowed"));
  }
  if (size_ > 0 && bytes_ + ticket.waiting_bytes > limits_.max_bytes) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: sources of ", bytes_, " bytes wait, and ",
                                limits_.max_bytes, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status FairQueue::CheckTenant(const Ticket& ticket, Party& party, absl::Time now) const {
  const Tenant& tenant = party.limits;
  if (ticket.rows > tenant.max_rows) {
    return Refused(reason::kTooLarge,
                   absl::StrCat("the request needs ", ticket.rows, " rows; tenant '", tenant.name,
                                "' may use ", tenant.max_rows),
                   tenant.name);
  }
  if (party.waiting >= tenant.max_waiting) {
    return Refused(
        reason::kTenantQuota,
        absl::StrCat(party.waiting, " requests of tenant '", tenant.name, "' wait, as many as may"),
        tenant.name);
  }
  if (!std::isinf(tenant.rate)) {
    if (party.filled != absl::InfinitePast()) {
      const double seconds = std::max(absl::ToDoubleSeconds(now - party.filled), 0.0);
      party.tokens = std::min(tenant.burst, party.tokens + tenant.rate * seconds);
    }
    party.filled = now;
    if (party.tokens < 1) {
      return status::WithRetryAfter(
          Refused(reason::kTenantRate,
                  absl::StrCat("tenant '", tenant.name, "' sends more than ", tenant.rate,
                               " sources a second"),
                  tenant.name),
          absl::Seconds((1 - party.tokens) / tenant.rate));
    }
    party.tokens -= 1;
  }
  return absl::OkStatus();
}

absl::Status FairQueue::Push(std::unique_ptr<Ticket>& ticket, absl::Time now) {
  Party& party = PartyOf(*ticket);
  BW_RETURN_IF_ERROR(CheckPlaces(*ticket));
  BW_RETURN_IF_ERROR(CheckTenant(*ticket, party, now));
  if (party.epoch != epoch_) {
    party.epoch = epoch_;
    party.credit = 0;
  }
  if (party.in_lines == 0) {
    ring_.push_back(&party);
  }
  ++party.in_lines;
  ++size_;
  num_streams_ += ticket->is_stream ? 1 : 0;
  ++sizes_[LevelOf(*ticket)];
  rows_ += ticket->rows;
  bytes_ += ticket->waiting_bytes;
  ++party.waiting;
  party.waiting_cost += ticket->cost;
  largest_cost_ = std::max(largest_cost_, ticket->cost);
  Level& level = party.levels[LevelOf(*ticket)];
  const uint64_t id = ticket->call == 0 ? next_own_call_-- : ticket->call;
  auto known = level.by_id.find(id);
  if (known == level.by_id.end()) {
    level.calls.push_back({id, {}});
    known = level.by_id.emplace(id, std::prev(level.calls.end())).first;
  }
  known->second->line.push_back(std::move(ticket));
  return absl::OkStatus();
}

// The level with the most credit after everybody that waits has had its turns: each gets its share
// in as even an order as there is.
int FairQueue::NextLevel(const Party& party) {
  int best = -1;
  int most = std::numeric_limits<int>::min();
  for (int i = 0; i < kLevels; ++i) {
    const Level& level = party.levels[static_cast<size_t>(i)];
    const int credit = level.credit + kTurns[static_cast<size_t>(i)];
    if (!level.calls.empty() && credit > most) {
      best = i;
      most = credit;
    }
  }
  return best;
}

const Ticket& FairQueue::Front(const Party& party) {
  return *party.levels[static_cast<size_t>(NextLevel(party))].calls.front().line.front();
}

bool FairQueue::MayRun(const Party& party, const Ticket& ticket) {
  // One may always run: limits may have been lowered since it was queued.
  return party.running == 0 || (party.running < party.limits.max_running &&
                                ticket.rows <= party.limits.max_rows - party.running_rows);
}

FairQueue::Verdict FairQueue::VerdictOn(const Ticket& ticket, const Room& room) {
  if (ticket.running_bytes > room.bytes_without_calls ||
      (ticket.is_stream && ticket.running_bytes > room.stream_bytes)) {
    return Verdict::kWaitsForStreams;
  }
  if (ticket.running_bytes > room.bytes) {
    return Verdict::kWaitsForCalls;
  }
  return ticket.is_stream || ticket.rows <= room.rows ? Verdict::kFits : Verdict::kWaitsForRows;
}

FairQueue::Party* FairQueue::NextParty() {
  double heaviest = 0;
  for (const Party* party : ring_) {
    heaviest = std::max(heaviest, party->limits.weight);
  }
  // What weight 1 gets in a round: enough for one request of the heaviest.
  const double quantum = largest_cost_ / heaviest;
  for (;;) {
    double rounds = std::numeric_limits<double>::infinity();
    for (auto at = ring_.begin(); at != ring_.end(); ++at) {
      Party& party = **at;
      if (!MayRun(party, Front(party))) {
        continue;
      }
      if (party.credit > 0) {
        // Stays first until its credit is used up.
        ring_.splice(ring_.begin(), ring_, at);
        return &party;
      }
      rounds = std::min(rounds, std::floor(-party.credit / (quantum * party.limits.weight)) + 1);
    }
    if (std::isinf(rounds)) {
      return nullptr;
    }
    // As many rounds at once as it takes until somebody may spend.
    for (Party* party : ring_) {
      if (MayRun(*party, Front(*party))) {
        party->credit += rounds * quantum * party->limits.weight;
      }
    }
  }
}

std::unique_ptr<Ticket> FairQueue::Unlink(Party& party, Level& level, Ring::iterator call,
                                          std::list<std::unique_ptr<Ticket>>::iterator at) {
  std::unique_ptr<Ticket> ticket = std::move(*at);
  call->line.erase(at);
  if (call->line.empty()) {
    level.by_id.erase(call->id);
    level.calls.erase(call);
    level.credit = level.calls.empty() ? 0 : level.credit;
  }
  if (--party.in_lines == 0) {
    ring_.remove(&party);
    // Nothing is saved up while nothing is asked; debts stay.
    party.credit = std::min(party.credit, 0.0);
  }
  return ticket;
}

void FairQueue::CountOut(Party& party, const Ticket& ticket) {
  --size_;
  num_streams_ -= ticket.is_stream ? 1 : 0;
  --sizes_[LevelOf(ticket)];
  rows_ -= ticket.rows;
  bytes_ -= ticket.waiting_bytes;
  --party.waiting;
  party.waiting_cost = party.waiting == 0 ? 0 : party.waiting_cost - ticket.cost;
  if (size_ == 0) {
    ++epoch_;
    largest_cost_ = 1;
  }
}

std::unique_ptr<Ticket> FairQueue::Choose(Party& party) {
  Level& level = party.levels[static_cast<size_t>(NextLevel(party))];
  const auto call = level.calls.begin();
  int turns = 0;
  for (size_t i = 0; i < kTurns.size(); ++i) {
    if (!party.levels[i].calls.empty()) {
      party.levels[i].credit += kTurns[i];
      turns += kTurns[i];
    }
  }
  level.credit -= turns;
  party.credit -= call->line.front()->cost;
  if (party.credit <= 0) {
    ring_.remove(&party);
    ring_.push_back(&party);
  }
  // The call's next turn comes after all others'.
  level.calls.splice(level.calls.end(), level.calls, call);
  return Unlink(party, level, call, call->line.begin());
}

std::unique_ptr<Ticket> FairQueue::Run(Party& party, std::unique_ptr<Ticket> ticket) {
  CountOut(party, *ticket);
  ++party.running;
  party.running_rows += ticket->rows;
  return ticket;
}

bool FairQueue::PopAside(const Room& room, std::unique_ptr<Ticket>& ticket) {
  for (auto at = aside_.begin(); at != aside_.end(); ++at) {
    if (!MayRun(*at->party, *at->ticket)) {
      continue;
    }
    const Verdict verdict = VerdictOn(*at->ticket, room);
    if (verdict == Verdict::kFits) {
      ticket = Run(*at->party, std::move(at->ticket));
      aside_.erase(at);
      return false;
    }
    if (verdict == Verdict::kWaitsForRows ||
        (verdict == Verdict::kWaitsForCalls && at->passed >= kMostPasses)) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<Ticket> FairQueue::Pop(const Room& room) {
  std::unique_ptr<Ticket> ticket;
  if (PopAside(room, ticket) || ticket != nullptr) {
    return ticket;
  }
  while (Party* const party = NextParty()) {
    const Verdict verdict = VerdictOn(Front(*party), room);
    if (verdict == Verdict::kWaitsForRows) {
      return nullptr;
    }
    ticket = Choose(*party);
    if (verdict == Verdict::kFits) {
      for (SetAside& passed : aside_) {
        passed.passed += VerdictOn(*passed.ticket, room) == Verdict::kWaitsForCalls ? 1 : 0;
      }
      return Run(*party, std::move(ticket));
    }
    aside_.push_back({std::move(ticket), party});
  }
  return nullptr;
}

void FairQueue::Ended(const TenantPtr& tenant, int rows) {
  Party& party = parties_.find(tenant == nullptr ? "" : tenant->name)->second;
  --party.running;
  party.running_rows -= rows;
}

std::vector<std::unique_ptr<Ticket>> FairQueue::TakeDead(absl::Time now) {
  std::vector<std::unique_ptr<Ticket>> dead;
  for (auto at = aside_.begin(); at != aside_.end();) {
    if (IsDead(*at->ticket, now)) {
      at->party->credit = std::min(at->party->credit + at->ticket->cost, 0.0);  // it had paid
      CountOut(*at->party, *at->ticket);
      dead.push_back(std::move(at->ticket));
      at = aside_.erase(at);
    } else {
      ++at;
    }
  }
  for (auto& [name, party] : parties_) {
    for (Level& level : party.levels) {
      for (auto call = level.calls.begin(); call != level.calls.end();) {
        const auto following = std::next(call);
        for (auto at = call->line.begin(); at != call->line.end();) {
          const auto next = std::next(at);
          const bool last = call->line.size() == 1;
          if (IsDead(**at, now)) {
            dead.push_back(Unlink(party, level, call, at));
            CountOut(party, *dead.back());
            if (last) {
              break;  // and its call is gone
            }
          }
          at = next;
        }
        call = following;
      }
    }
  }
  return dead;
}

FairQueue::Aside FairQueue::aside() const {
  Aside aside;
  aside.size = static_cast<int>(aside_.size());
  for (const SetAside& waits : aside_) {
    if (waits.ticket->accepted < aside.oldest) {
      aside.oldest = waits.ticket->accepted;
      aside.bytes = waits.ticket->running_bytes;
    }
  }
  return aside;
}

absl::Time FairQueue::oldest() const {
  absl::Time oldest = aside().oldest;
  for (const Party* party : ring_) {
    for (const Level& level : party->levels) {
      for (const Call& call : level.calls) {
        oldest = std::min(oldest, call.line.front()->accepted);
      }
    }
  }
  return oldest;
}

double FairQueue::cost() const {
  double all = 0;
  for (const Party* party : ring_) {
    all += party->waiting_cost;
  }
  return all;
}

double FairQueue::CostAhead(const TenantPtr& tenant, double cost) const {
  double all = 0;
  double weights = 0;
  double own = 0;
  const std::string name = tenant == nullptr ? "" : tenant->name;
  const double weight = tenant == nullptr ? 1 : tenant->weight;
  bool waits = false;
  for (const Party* party : ring_) {
    all += party->waiting_cost;
    weights += party->limits.weight;
    if (party->limits.name == name) {
      own = party->waiting_cost;
      waits = true;
    }
  }
  weights += waits ? 0 : weight;
  return std::min(all, (own + cost) * weights / weight - cost);
}

std::vector<TenantLoad> FairQueue::Tenants() const {
  std::vector<TenantLoad> loads;
  for (const auto& [name, party] : parties_) {
    if (party.waiting > 0 || party.running > 0) {
      loads.push_back({name, party.waiting, party.running, party.running_rows, party.waiting_cost});
    }
  }
  return loads;
}

}  // namespace beamwright::engine
