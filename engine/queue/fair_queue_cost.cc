// FairQueue: the cost of what waits, from which forecasts are made. CostAhead says how much work
// will be done before a ticket's turn, by the rules by which the queue takes turns:
//
// 1. Within its client, calls take turns and a call's tickets keep their order.
// 2. Clients of a level take turns by cost: a client whose turn is due later than the ticket's turn
// goes later.
// 3. Levels of priority take turns in fixed shares, and tenants by their weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <list>

#include "engine/queue/fair_queue.h"

namespace beamwright::engine {

double FairQueue::cost() const {
  double all = 0;
  for (const Party* party : ring_) {
    all += party->waiting_cost;
  }
  return all;
}

// What goes before the ticket within its tenant.
double FairQueue::CostAheadWithin(const Party& party, const Ticket& ticket) const {
  const auto counted = by_client_.find(ClientOf(ticket));
  const bool is_newcomer = counted == by_client_.end() || counted->second.running == 0;
  const size_t own = LevelOf(ticket);
  const Level& level = party.levels[own];
  const uint64_t own_client = ClientOf(ticket);
  double line_cost = 0;
  double turns = 1;
  const auto& clients = level.clients.by_id;
  if (const auto found = clients.find(own_client); found != clients.end()) {
    const Client& client = *found->second;
    const auto call = client.calls.by_id.find(ticket.call);
    const bool waits = call != client.calls.by_id.end();
    const auto of_call = waits ? static_cast<double>(call->second->line.size()) : 0.0;
    const auto other_calls = static_cast<double>(client.calls.by_id.size() - (waits ? 1 : 0));
    const double ahead = std::min<double>(client.size, of_call + (of_call + 1) * other_calls);
    line_cost = client.cost * ahead / client.size;
    turns += ahead;
  }
  // Clients whose turn is due later than the ticket's turn go later: at this cost in a ring.
  const double due = level.clients.work + line_cost + ticket.cost;
  const auto turn_cost = [due, own_client](const std::list<Client>& ring) {
    double cost = 0;
    for (auto client = ring.begin(); client != ring.end() && client->tag <= due; ++client) {
      cost += client->id == own_client ? 0 : client->turn_cost();
    }
    return cost;
  };
  const double of_running = turn_cost(level.clients.running);
  const double in_turn =
      turns * (turn_cost(level.clients.waiting) + of_running) - (is_newcomer ? of_running : 0);
  const double in_level = std::min(level.cost, line_cost + in_turn);
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

// Tenants take turns by weight: until the ticket's turn, the others together do at most their
// share, or all that waits of theirs.
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
