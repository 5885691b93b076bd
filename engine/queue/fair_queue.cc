// The queue as nested turns. fair_queue.h says who shares with whom; this is how a ticket enters
// and leaves:
//
//   parties_ (tenants) -> Party::levels (priorities) -> Rings<Client> -> Rings<Call> -> Line (FIFO)
//
// Push: 1. CheckPlaces refuses what the queue has no room for, CheckTenant what the tenant may not
// add. 2. The ticket is counted for its tenant, client and call. 3. Level::Add appends it to its
// call's line.
//
// Pop: 1. PopAside looks at tickets that were chosen before and waited for bytes. 2. NextParty
// chooses the tenant, by deficit round robin. 3. Next(Party) chooses the priority, by smooth
// weighted round robin with the weights kTurns.
// 4. Next(Level) chooses the client and call, by the tags of weighted fair queuing, and passes over
//    clients that must leave the remaining room to others (MustLeave). 5. VerdictOn compares the
//    ticket with the room. If it fits, Choose charges its tenant and Run counts it as running. If
//    it needs rows, only light tickets may pass it. If it needs bytes, it is charged and set aside,
//    and the loop goes on.
//
// By example, deficit round robin: tenants A (weight 2) and B (weight 1) have requests of cost 10.
// A round gives credit 10 to A and 5 to B (quantum = 10 / 2). A request needs credit above 0 and
// takes 10 of it, so two requests of A run for each one of B. NextParty adds all rounds at once
// that are needed until one tenant may run.
#include "engine/queue/fair_queue.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

namespace reason = status::reason;

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

}  // namespace

size_t FairQueue::LevelOf(const Ticket& ticket) {
  return static_cast<size_t>(std::clamp(ticket.priority, kHighestPriority, kLowestPriority) -
                             kHighestPriority);
}

FairQueue::Party& FairQueue::PartyOf(const Ticket& ticket) {
  static const Tenant nobody;
  const Tenant& tenant = ticket.tenant == nullptr ? nobody : *ticket.tenant;
  const auto [entry, fresh] = parties_.try_emplace(tenant.name);
  Party& party = entry->second;
  party.limits = tenant;
  party.tokens = fresh ? tenant.burst : std::min(party.tokens, tenant.burst);
  return party;
}

uint64_t FairQueue::ClientOf(uint64_t call, uint64_t client) {
  // Numbers of calls and of calls without a number (next_own_call_) are not those of clients.
  constexpr uint64_t kClients = uint64_t{1} << 62;
  return client == 0 ? call : kClients | (client & (kClients - 1));
}

absl::Status FairQueue::CheckPlaces(const Ticket& ticket) const {
  if ((ticket.is_stream ? size_ : PlacesTaken(IsNewcomer(ticket))) >= limits_.max_requests) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: ", size_, " requests wait"));
  }
  if (ticket.is_stream && num_calls() > 0 &&
      num_streams_ >= std::max(1, limits_.max_requests / 2)) {
    return Refused(reason::kQueueFull,
                   absl::StrCat("the queue is full: ", num_streams_,
                                " streams wait, which have half of its places while calls wait"));
  }
  // A ticket that is larger than the whole queue may wait if it is the only one.
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
  // 1. Credit of a time before the queue was last empty does not count any more.
  if (party.epoch != epoch_) {
    party.epoch = epoch_;
    party.credit = 0;
  }
  if (party.in_lines == 0) {
    ring_.push_back(&party);
  }
  // 2. Counts of the queue, the tenant, the client and the call.
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
  const uint64_t client_id = ClientOf(*ticket);
  const uint64_t call_id = ticket->call;
  // 3. The client's and the call's places among those that take turns. One without a number gets a
  //    number that no other has.
  const auto client = level.clients.Find(client_id == 0 ? next_own_call_ : client_id,
                                         CountRunning(by_client_, client_id) > 0);
  const auto call = client->calls.Find(call_id == 0 ? next_own_call_ : call_id,
                                       CountRunning(by_call_, call_id) > 0);
  --next_own_call_;
  if (client_id != 0) {
    Counts& counts = by_client_[client_id];
    num_excessive_ += ++counts.waiting > MostOfAClient() ? 1 : 0;
    counts.waiting_rows += CountedRows(ticket->rows, ticket->is_stream);
  }
  if (call_id != 0) {
    ++by_call_[call_id].waiting;
  }
  level.Add(client, call, std::move(ticket));
  return absl::OkStatus();
}

void FairQueue::Level::Add(Rings<Client>::At at, Rings<Call>::At call,
                           std::unique_ptr<Ticket> ticket) {
  Client& client = *at;
  cost += ticket->cost;
  client.cost += ticket->cost;
  call->line.push_back(std::move(ticket));
  ++client.size;
  ++size;
  if (call->line.size() == 1) {
    client.calls.Begin(call, call->runs);
  }
  client.size == 1 ? clients.Begin(at, client.runs) : clients.Renew(at);
}

std::unique_ptr<Ticket> FairQueue::Level::Remove(const Place& place, double num_clients) {
  Client& client = *place.client;
  std::unique_ptr<Ticket> ticket = std::move(*place.at);
  if (num_clients > 0) {
    clients.work += ticket->cost / num_clients;
    client.calls.work += ticket->cost / static_cast<double>(client.calls.by_id.size());
  }
  cost -= ticket->cost;
  client.cost -= ticket->cost;
  place.call->line.erase(place.at);
  --client.size;
  --size;
  if (place.call->line.empty()) {
    client.calls.Erase(place.call);
  } else if (num_clients > 0) {
    client.calls.Begin(place.call, place.call->runs);
  } else {
    client.calls.Renew(place.call);
  }
  if (client.size == 0) {
    clients.Erase(place.client);
  } else if (num_clients > 0) {
    clients.Begin(place.client, client.runs);
  } else {
    clients.Renew(place.client);
  }
  if (size == 0) {
    // Sums of doubles do not come back to zero by themselves.
    cost = 0;
    clients.work = 0;
    sharing = 0;
  }
  return ticket;
}

void FairQueue::SetRuns(Party& party, uint64_t client, bool runs) {
  for (Level& level : party.levels) {
    if (const auto found = level.clients.by_id.find(client);
        found != level.clients.by_id.end() && found->second->runs != runs) {
      level.clients.Begin(found->second, runs);
    }
  }
}

void FairQueue::SetRuns(Party& party, uint64_t client, uint64_t call, bool runs) {
  for (Level& level : party.levels) {
    const auto of_client = level.clients.by_id.find(client);
    if (of_client == level.clients.by_id.end()) {
      continue;
    }
    Rings<Call>& calls = of_client->second->calls;
    if (const auto found = calls.by_id.find(call);
        found != calls.by_id.end() && found->second->runs != runs) {
      calls.Begin(found->second, runs);
      level.clients.Renew(of_client->second);
    }
  }
}

bool FairQueue::MustLeave(const Ticket& ticket, const Room& room) const {
  const auto own = by_client_.find(ClientOf(ticket));
  if (own == by_client_.end() || own->second.running == 0) {
    return false;
  }
  if (own->second.rows > 0 && !ticket.is_stream &&
      CountedRows(ticket.rows, ticket.is_stream) > room.rows_of_client - own->second.rows) {
    return true;
  }
  const int divisor = CountRunning(by_call_, ticket.call) > 0 ? 1 : 2;
  return ticket.rows > room.rows - room.rows_kept / divisor ||
         ticket.running_bytes > room.bytes - room.bytes_kept / divisor;
}

bool FairQueue::IsOnly(const Ticket& ticket) const {
  const auto own = by_client_.find(ClientOf(ticket));
  return ticket.num_sources == 1 &&
         (own == by_client_.end() || own->second.waiting + own->second.running == 1);
}

bool FairQueue::IsOfCrowd(const Ticket& ticket, const Room& room) const {
  const auto own = by_client_.find(ClientOf(ticket));
  const int64_t of_client =
      own == by_client_.end() ? 0 : own->second.rows + own->second.waiting_rows;
  const int64_t of_call = int64_t{ticket.num_sources} * CountedRows(ticket.rows, ticket.is_stream);
  return std::max(of_client, of_call) > room.rows_of_client;
}

bool FairQueue::Next(Level& level, const Room& room, Place& next) const {
  // A client of which a source runs may have to leave while another one need not.
  constexpr int kMostClients = 64;
  int looks = 0;
  for (const bool runs : {false, true}) {
    auto& ring = level.clients.ring(runs);
    for (auto client = ring.begin(); client != ring.end(); ++client) {
      const auto call = client->calls.begin();
      const Ticket& ticket = *call->line.front();
      if (ticket.cost > room.max_cost) {
        continue;
      }
      if (ticket.wide_rows > 0 && wide_rows_ > 0 &&
          ticket.wide_rows > room.rows_of_wide - wide_rows_ && !IsOnly(ticket)) {
        continue;  // passed over, however many such clients there are
      }
      if (!MustLeave(ticket, room)) {
        next = {client, call, call->line.begin()};
        return true;
      }
      if (++looks == kMostClients) {
        return false;
      }
    }
  }
  return false;
}

// The level with the most credit after each level that has tickets has gained its turns (smooth
// weighted round robin): in 21 choices 16, 4 and 1 go to the three levels, spread evenly.
int FairQueue::Next(Party& party, const Room& room, Place& next) const {
  int best = -1;
  int most = std::numeric_limits<int>::min();
  for (int i = 0; i < kLevels; ++i) {
    Level& level = party.levels[static_cast<size_t>(i)];
    const int credit = level.credit + kTurns[static_cast<size_t>(i)];
    Place place;
    if (!level.empty() && credit > most && Next(level, room, place)) {
      best = i;
      most = credit;
      next = place;
    }
  }
  return best;
}

bool FairQueue::MayRun(const Party& party, const Ticket& ticket) {
  // A tenant without a running request may always run one: its limits may have been lowered since
  // the request was queued.
  return party.running == 0 || (party.running < party.limits.max_running &&
                                ticket.rows <= party.limits.max_rows - party.running_rows);
}

bool FairQueue::MayRun(Party& party, const Room& room) const {
  Place next;
  return Next(party, room, next) >= 0 && MayRun(party, **next.at);
}

FairQueue::Verdict FairQueue::VerdictOn(const Ticket& ticket, const Room& room) {
  if (ticket.running_bytes > room.bytes_without_calls ||
      (ticket.is_stream && ticket.running_bytes > room.stream_bytes)) {
    return Verdict::kWaitsForStreams;
  }
  if (ticket.running_bytes > room.bytes) {
    return Verdict::kWaitsForCalls;
  }
  if (ticket.is_stream) {
    return Verdict::kFits;
  }
  if (ticket.cost > room.heavy_cost && ticket.rows > room.rows_of_heavy) {
    return Verdict::kWaitsForHeavy;
  }
  const int kept = ticket.cost > room.light_cost ? room.rows_kept_for_light : 0;
  return ticket.rows <= room.rows - kept ? Verdict::kFits : Verdict::kWaitsForRows;
}

FairQueue::Party* FairQueue::NextParty(const Room& room) {
  // 1. The credit of a round, for weight 1: so that the heaviest tenant's share is one request of
  //    the largest cost.
  double heaviest = 0;
  for (const Party* party : ring_) {
    heaviest = std::max(heaviest, party->limits.weight);
  }
  const double quantum = largest_cost_ / heaviest;
  for (;;) {
    // 2. The first tenant in the ring with credit; or the number of rounds until one has some.
    double rounds = std::numeric_limits<double>::infinity();
    for (auto at = ring_.begin(); at != ring_.end(); ++at) {
      Party& party = **at;
      if (!MayRun(party, room)) {
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
    // 3. That many rounds at once, for all tenants that may run.
    for (Party* party : ring_) {
      if (MayRun(*party, room)) {
        party->credit += rounds * quantum * party->limits.weight;
      }
    }
  }
}

std::unique_ptr<Ticket> FairQueue::Unlink(Party& party, Level& level, const Place& place,
                                          double num_clients) {
  std::unique_ptr<Ticket> ticket = level.Remove(place, num_clients);
  level.credit = level.empty() ? 0 : level.credit;
  if (--party.in_lines == 0) {
    ring_.remove(&party);
    // A tenant without waiting tickets saves no credit; its debts stay.
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
  if (const auto counted = by_client_.find(ClientOf(ticket)); counted != by_client_.end()) {
    num_excessive_ -= counted->second.waiting-- > MostOfAClient() ? 1 : 0;
    counted->second.waiting_rows -= CountedRows(ticket.rows, ticket.is_stream);
    EraseIfNone(by_client_, counted);
  }
  if (const auto counted = by_call_.find(ticket.call); counted != by_call_.end()) {
    --counted->second.waiting;
    EraseIfNone(by_call_, counted);
  }
  party.waiting_cost = party.waiting == 0 ? 0 : party.waiting_cost - ticket.cost;
  if (size_ == 0) {
    ++epoch_;
    largest_cost_ = 1;
  }
}

std::unique_ptr<Ticket> FairQueue::Choose(Party& party, int chosen, const Place& place) {
  Level& level = party.levels[static_cast<size_t>(chosen)];
  // 1. Each level with tickets gains its turns, and the chosen level pays for all of them.
  int turns = 0;
  for (size_t i = 0; i < kTurns.size(); ++i) {
    if (!party.levels[i].empty()) {
      party.levels[i].credit += kTurns[i];
      turns += kTurns[i];
    }
  }
  level.credit -= turns;
  // 2. The tenant pays the cost; without credit it goes to the end of the ring.
  party.credit -= (*place.at)->cost;
  if (party.credit <= 0) {
    ring_.remove(&party);
    ring_.push_back(&party);
  }
  // 3. The number of clients that share the work decides how fast their turns become due. It falls
  //    slowly, so that clients which left a while ago still count, and turns of clients that came
  //    with them are not due earlier.
  constexpr double kForget = 1.0 / 16;
  const auto present = static_cast<double>(std::max(by_client_.size(), level.clients.by_id.size()));
  level.sharing = std::max(present, level.sharing - kForget);
  return Unlink(party, level, place, level.sharing);
}

std::unique_ptr<Ticket> FairQueue::Run(Party& party, const Room& room,
                                       std::unique_ptr<Ticket> ticket) {
  const uint64_t client = ClientOf(*ticket);
  ticket->is_of_crowd = IsOfCrowd(*ticket, room);
  ticket->wide_rows = IsOnly(*ticket) ? 0 : ticket->wide_rows;
  wide_rows_ += ticket->wide_rows;
  if (client != 0) {
    Counts& counts = by_client_[client];
    ++counts.taken;
    counts.rows += CountedRows(ticket->rows, ticket->is_stream);
    if (++counts.running == 1) {
      SetRuns(party, client, true);
    }
  }
  if (ticket->call != 0 && ++by_call_[ticket->call].running == 1) {
    SetRuns(party, client, ticket->call, true);
  }
  CountOut(party, *ticket);
  ++party.running;
  party.running_rows += ticket->rows;
  return ticket;
}

bool FairQueue::PopAside(const Room& room, std::unique_ptr<Ticket>& ticket) {
  for (auto at = aside_.begin(); at != aside_.end(); ++at) {
    if (!MayRun(*at->party, *at->ticket) || MustLeave(*at->ticket, room)) {
      continue;
    }
    const Verdict verdict = VerdictOn(*at->ticket, room);
    if (verdict == Verdict::kFits) {
      ticket = Run(*at->party, room, std::move(at->ticket));
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
  // 1. A ticket that was set aside, if its bytes are free now or others may not pass it any more.
  if (PopAside(room, ticket) || ticket != nullptr) {
    return ticket;
  }
  // 2. The choice, until a ticket fits, or all that remain must wait.
  Room left = room;
  while (Party* const party = NextParty(left)) {
    Place next;
    const int level = Next(*party, left, next);
    const Verdict verdict = VerdictOn(**next.at, left);
    if (verdict == Verdict::kWaitsForRows || verdict == Verdict::kWaitsForHeavy) {
      if ((*next.at)->cost <= left.light_cost || left.max_cost <= left.light_cost) {
        return nullptr;
      }
      // Light tickets may pass it, in rows that are kept for them: so it has its own rows in the
      // end.
      left.max_cost = left.light_cost;
      left.rows =
          verdict == Verdict::kWaitsForRows ? std::min(left.rows, left.rows_of_light) : left.rows;
      continue;
    }
    ticket = Choose(*party, level, next);
    if (verdict == Verdict::kFits) {
      for (SetAside& passed : aside_) {
        passed.passed += VerdictOn(*passed.ticket, room) == Verdict::kWaitsForCalls ? 1 : 0;
      }
      return Run(*party, room, std::move(ticket));
    }
    aside_.push_back({std::move(ticket), party});
  }
  return nullptr;
}

bool FairQueue::Ended(const TenantPtr& tenant, int rows, uint64_t call, uint64_t client,
                      bool is_stream, int wide_rows, int num_sources) {
  Party& party = parties_.find(tenant == nullptr ? "" : tenant->name)->second;
  --party.running;
  party.running_rows -= rows;
  wide_rows_ -= wide_rows;
  const uint64_t id = ClientOf(call, client);
  if (const auto counted = by_call_.find(call);
      counted != by_call_.end() && --counted->second.running == 0) {
    EraseIfNone(by_call_, counted);
    SetRuns(party, id, call, false);
  }
  const auto counted = by_client_.find(id);
  if (counted == by_client_.end()) {
    return !is_stream && num_sources == 1;
  }
  Counts& counts = counted->second;
  counts.rows -= CountedRows(rows, is_stream);
  const bool is_alone = !is_stream && num_sources == 1 && counts.taken == 1 && counts.waiting == 0;
  if (--counts.running == 0) {
    EraseIfNone(by_client_, counted);
    SetRuns(party, id, false);
  }
  return is_alone;
}

std::vector<std::unique_ptr<Ticket>> FairQueue::TakeDeadOf(Party& party, Level& level,
                                                           absl::Time now) {
  // All are found before any is taken out: a call and a client are erased with their last ticket.
  std::vector<Place> found;
  for (auto* const clients : {&level.clients.waiting, &level.clients.running}) {
    for (auto client = clients->begin(); client != clients->end(); ++client) {
      for (auto* const calls : {&client->calls.waiting, &client->calls.running}) {
        for (auto call = calls->begin(); call != calls->end(); ++call) {
          for (auto at = call->line.begin(); at != call->line.end(); ++at) {
            if (IsDead(**at, now)) {
              found.push_back({client, call, at});
            }
          }
        }
      }
    }
  }
  std::vector<std::unique_ptr<Ticket>> dead;
  for (const Place& place : found) {
    dead.push_back(Unlink(party, level, place));
    CountOut(party, *dead.back());
  }
  return dead;
}

std::vector<std::unique_ptr<Ticket>> FairQueue::TakeDead(absl::Time now) {
  std::vector<std::unique_ptr<Ticket>> dead;
  for (auto at = aside_.begin(); at != aside_.end();) {
    if (IsDead(*at->ticket, now)) {
      at->party->credit = std::min(at->party->credit + at->ticket->cost,
                                   0.0);  // gives back the cost that Choose took
      CountOut(*at->party, *at->ticket);
      dead.push_back(std::move(at->ticket));
      at = aside_.erase(at);
    } else {
      ++at;
    }
  }
  for (auto& [name, party] : parties_) {
    for (Level& level : party.levels) {
      std::vector<std::unique_ptr<Ticket>> some = TakeDeadOf(party, level, now);
      std::move(some.begin(), some.end(), std::back_inserter(dead));
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
      for (const auto& [client_id, client] : level.clients.by_id) {
        for (const auto& [call_id, call] : client->calls.by_id) {
          oldest = std::min(oldest, call->line.front()->accepted);
        }
      }
    }
  }
  return oldest;
}

}  // namespace beamwright::engine
