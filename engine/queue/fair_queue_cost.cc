// FairQueue: what waits, reckoned in cost: what forecasts are made from.
#include <algorithm>
#include <cmath>

#include "engine/queue/fair_queue.h"

namespace beamwright::engine {

double FairQueue::cost() const {
  double all = 0;
  for (const Party* party : ring_) {
    all += party->waiting_cost;
  }
  return all;
}

double FairQueue::CostAheadWithin(const Party& party, const Ticket& ticket) {
  const size_t own = LevelOf(ticket);
  const Level& level = party.levels[own];
  double line_cost = 0;
  double others = level.turn_cost;
  double turns = 1;
  if (const auto found = level.by_id.find(ticket.call); found != level.by_id.end()) {
    const Call& call = *found->second;
    line_cost = call.cost;
    others -= call.turn_cost();
    turns += static_cast<double>(call.line.size());
  }
  const double in_level = std::min(level.cost, line_cost + turns * others);
  double ahead = in_level;
  // As many tickets as the level's turns let pass of the others, at what they cost in the mean.
  const double tickets = level.size == 0 ? 1 : 1 + level.size * in_level / level.cost;
  for (size_t i = 0; i < kTurns.size(); ++i) {
    const Level& other = party.levels[i];
    if (i != own && other.size > 0) {
      const double passing = std::ceil(tickets * kTurns[i] / kTurns[own]);
      ahead += other.cost * std::min(1.0, passing / other.size);
    }
  }
  return ahead;
}

double FairQueue::CostAhead(const Ticket& ticket) const {
  const std::string name = ticket.tenant == nullptr ? "" : ticket.tenant->name;
  const double weight = ticket.tenant == nullptr ? 1 : ticket.tenant->weight;
  double all = 0;
  double weights = weight;
  double own = 0;
  for (const Party* party : ring_) {
    if (party->limits.name == name) {
      own = CostAheadWithin(*party, ticket);
    } else {
      all += party->waiting_cost;
      weights += party->limits.weight;
    }
  }
  all += own;
  return std::min(all, (own + ticket.cost) * weights / weight - ticket.cost);
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
