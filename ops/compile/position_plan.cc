// How a step runs over several positions of its rows at once (ops/compile/position_plan.h), found
// from the strongly connected components of the step's instructions and states, where a state
// depends on the instruction that computes its next value: what depends on itself by way of a state
// is one component. Components in topological order are an order of computation in which everything
// is there when it is read.
//
// A component becomes a stage:
//
// - one instruction alone: all rows of all positions at once (kRows), or once for each request
//   (kRequests);
// - one state alone: its next values, moved by one position (kShift), since they do not depend on
//   the state;
// - several nodes: position after position (kInOrder), with the list of values that it reads and
//   gives.
//
// Refuse keeps the first reason why a step cannot run this way; it then runs one position at a
// time.
#include "ops/compile/position_plan.h"

#include <algorithm>
#include <utility>

namespace beamwright::ops {
namespace {

using Stage = PositionPlan::Stage;

class PositionPlanner {
 public:
  PositionPlanner(const Program& program, const RowPlan& rows, absl::Span<const StateSlots> states,
                  absl::Span<const int> results)
      : program_(program), rows_(rows), states_(states), results_(results) {}

  PositionPlan Run() {
    ConnectNodes();
    FindComponents();
    plan_.possible = true;
    for (const std::vector<int>& component : components_) {
      AddStage(component);
    }
    if (!plan_.possible) {
      plan_.stages.clear();
    }
    return std::move(plan_);
  }

 private:
  // A node is an instruction, or, from num_instructions() on, a state.
  int num_instructions() const { return static_cast<int>(program_.instructions().size()); }
  bool IsState(int node) const { return node >= num_instructions(); }
  const Program::Instruction& InstructionOf(int node) const {
    return program_.instructions()[static_cast<size_t>(node)];
  }
  const StateSlots& StateOf(int node) const {
    return states_[static_cast<size_t>(node - num_instructions())];
  }

  // 1. What each node reads, as nodes.
  void ConnectNodes() {
    maker_.assign(static_cast<size_t>(program_.num_slots()), -1);
    for (int node = 0; node < num_instructions(); ++node) {
      const Program::Instruction& instruction = InstructionOf(node);
      for (int output = 0; output < instruction.num_outputs; ++output) {
        maker_[static_cast<size_t>(instruction.first_output + output)] = node;
      }
    }
    const int num_nodes = num_instructions() + static_cast<int>(states_.size());
    for (int node = num_instructions(); node < num_nodes; ++node) {
      maker_[static_cast<size_t>(StateOf(node).parameter)] = node;
    }
    for (int node = 0; node < num_nodes; ++node) {
      std::vector<int>& sources = sources_.emplace_back();
      const auto read = [&](int slot) {
        if (slot >= 0 && maker_[static_cast<size_t>(slot)] >= 0) {
          sources.push_back(maker_[static_cast<size_t>(slot)]);
        }
      };
      if (IsState(node)) {
        read(StateOf(node).next);
      } else {
        std::for_each(InstructionOf(node).inputs.begin(), InstructionOf(node).inputs.end(), read);
      }
    }
  }

  // 2. Tarjan's algorithm with its own stack, since a deep graph has thousands of nodes. It walks
  // from a node to its sources, so that components are found in the order in which they run.
  void FindComponents() {
    struct Visit {
      int node;
      size_t next = 0;  // of its sources
    };
    component_of_.assign(sources_.size(), -1);
    std::vector<int> number(sources_.size(), -1);
    std::vector<int> lowest(sources_.size(), 0);
    std::vector<int> open;
    std::vector<Visit> visits;
    int count = 0;
    for (int root = 0; root < static_cast<int>(sources_.size()); ++root) {
      if (number[static_cast<size_t>(root)] < 0) {
        visits.push_back({root});
      }
      while (!visits.empty()) {
        Visit& visit = visits.back();
        const int node = visit.node;
        const auto at = static_cast<size_t>(node);
        if (number[at] < 0) {
          number[at] = lowest[at] = count++;
          open.push_back(node);
        }
        if (visit.next < sources_[at].size()) {
          const int source = sources_[at][visit.next++];
          const auto from = static_cast<size_t>(source);
          if (number[from] < 0) {
            visits.push_back({source});
          } else if (component_of_[from] < 0) {
            lowest[at] = std::min(lowest[at], number[from]);
          }
          continue;
        }
        visits.pop_back();
        if (!visits.empty()) {
          int& parent = lowest[static_cast<size_t>(visits.back().node)];
          parent = std::min(parent, lowest[at]);
        }
        if (lowest[at] == number[at]) {
          CloseComponent(node, open);
        }
      }
    }
  }

  // The nodes above `first` on the stack, and `first` itself, are one component.
  void CloseComponent(int first, std::vector<int>& open) {
    std::vector<int>& component = components_.emplace_back();
    int node = -1;
    do {
      node = open.back();
      open.pop_back();
      component_of_[static_cast<size_t>(node)] = static_cast<int>(components_.size()) - 1;
      component.push_back(node);
    } while (node != first);
    std::sort(component.begin(), component.end());  // instructions in the program's order
  }

  bool IsPerRequest(int node) const { return rows_.per_request[static_cast<size_t>(node)]; }

  // 3. How a component runs.
  void AddStage(const std::vector<int>& component) {
    const int node = component.front();
    if (component.size() > 1) {
      AddInOrder(component);
    } else if (IsState(node)) {
      AddShift(node);
    } else {
      Append(node, IsPerRequest(node) ? Stage::Kind::kRequests : Stage::Kind::kRows);
    }
  }

  void Append(int node, Stage::Kind kind) {
    if (plan_.stages.empty() || plan_.stages.back().kind != kind) {
      plan_.stages.emplace_back().kind = kind;
      plan_.stages.back().segment.per_request = kind == Stage::Kind::kRequests;
    }
    RowPlan::Segment& segment = plan_.stages.back().segment;
    segment.instructions.push_back(node);
    // What the plan by rows joins: another segment reads it, and here perhaps another stage.
    for (const RowPlan::Segment& planned : rows_.segments) {
      for (const int slot : planned.joined) {
        if (maker_[static_cast<size_t>(slot)] == node) {
          segment.joined.push_back(slot);
        }
      }
    }
  }

  void AddShift(int node) {
    const int next = StateOf(node).next;
    // A token, a constant or an invariant has no row before another.
    const bool is_made = maker_[static_cast<size_t>(next)] >= 0 && IsPlainRows(next);
    if (!is_made || !IsPlainRows(StateOf(node).parameter)) {
      Refuse("the next value of a state is no row of the step");
      return;
    }
    Stage& stage = plan_.stages.emplace_back();
    stage.kind = Stage::Kind::kShift;
    stage.states = {node - num_instructions()};
  }

  bool IsRows(int slot) const { return rows_.is_rows[static_cast<size_t>(slot)]; }
  bool IsPlainRows(int slot) const {
    const auto at = static_cast<size_t>(slot);
    return IsRows(slot) && rows_.row_axes[at] == 0 && rows_.factors[at] == 1;
  }

  // What a stage of several nodes reads from outside and gives to others, and whether it can run
  // row by row at all: no value of its request may be computed from a state, and each state must
  // have an instruction that computes it.
  void AddInOrder(const std::vector<int>& component) {
    const int number = component_of_[static_cast<size_t>(component.front())];
    const auto is_inside = [&](int slot) {
      const int maker = maker_[static_cast<size_t>(slot)];
      return maker >= 0 && component_of_[static_cast<size_t>(maker)] == number;
    };
    Stage stage;
    stage.kind = Stage::Kind::kInOrder;
    for (const int node : component) {
      if (IsState(node)) {
        stage.states.push_back(node - num_instructions());
        AddGiven(StateOf(node).parameter, number, stage);
        const int maker = maker_[static_cast<size_t>(StateOf(node).next)];
        if (maker < 0 || IsState(maker) || !IsPlainRows(StateOf(node).parameter)) {
          Refuse("states take turns");
        }
        continue;
      }
      const Program::Instruction& instruction = InstructionOf(node);
      if (IsPerRequest(node)) {
        Refuse(instruction.name + " reads values of its request and a state that follows from it");
      }
      stage.segment.instructions.push_back(node);
      for (int output = 0; output < instruction.num_outputs; ++output) {
        AddGiven(instruction.first_output + output, number, stage);
      }
      for (const int slot : instruction.inputs) {
        if (slot >= 0 && !is_inside(slot) &&
            rows_.sources[static_cast<size_t>(slot)] != RowPlan::Source::kConstant) {
          stage.read.push_back(slot);
        }
      }
    }
    std::sort(stage.read.begin(), stage.read.end());
    stage.read.erase(std::unique(stage.read.begin(), stage.read.end()), stage.read.end());
    for (const std::vector<int>* slots : {&stage.read, &stage.given}) {
      if (!std::all_of(slots->begin(), slots->end(), [this](int slot) { return IsRows(slot); })) {
        Refuse("an extent that follows from the number of rows is read across a state");
      }
    }
    plan_.stages.push_back(std::move(stage));
  }

  // Adds the slot to what component `number` gives if anything outside of it reads it.
  void AddGiven(int slot, int number, Stage& stage) const {
    bool is_read = std::find(results_.begin(), results_.end(), slot) != results_.end();
    for (const Program::Reader& reader : program_.Readers(slot)) {
      is_read |= component_of_[reader.instruction] != number;
    }
    if (is_read) {
      stage.given.push_back(slot);
    }
  }

  void Refuse(std::string why) {
    if (plan_.possible) {
      plan_.possible = false;
      plan_.reason = std::move(why);
    }
  }

  const Program& program_;
  const RowPlan& rows_;
  const absl::Span<const StateSlots> states_;
  const absl::Span<const int> results_;
  std::vector<int> maker_;                 // by slot: the node that sets it; -1: none
  std::vector<std::vector<int>> sources_;  // by node
  std::vector<int> component_of_;          // by node
  std::vector<std::vector<int>> components_;
  PositionPlan plan_;
};

}  // namespace

PositionPlan PlanPositions(const Program& program, const RowPlan& rows,
                           absl::Span<const StateSlots> states, absl::Span<const int> results) {
  return PositionPlanner(program, rows, states, results).Run();
}

}  // namespace beamwright::ops
