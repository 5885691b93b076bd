// PositionPlan: how a step runs over several positions of one row at once, such as the tokens of a
// prompt. A position continues the states that the position before it leaves. What lies between two
// states is computed for all positions together, as for rows of different requests, so that weights
// are read once; only what a state's next value depends on by way of the state itself runs position
// by position (docs/architecture.md, 'Rows').
#ifndef BEAMWRIGHT_OPS_COMPILE_POSITION_PLAN_H_
#define BEAMWRIGHT_OPS_COMPILE_POSITION_PLAN_H_

#include <string>
#include <vector>

#include "ops/compile/program.h"
#include "ops/compile/row_plan.h"

namespace beamwright::ops {

// A carried state of the body. Slots of the program.
struct StateSlots {
  int parameter = -1;
  int next = -1;
};

struct PositionPlan {
  struct Stage {
    enum class Kind {
      kRows,      // instructions that run over all positions of all rows
      kRequests,  // `segment` runs request by request, on all positions of the request's rows
      kShift,     // a state whose next value does not depend on it: positions read the one before
      kInOrder,   // instructions and states that depend on each other: position by position
    };
    Kind kind = Kind::kRows;
    RowPlan::Segment segment;  // its instructions; of kRequests also what is joined
    std::vector<int> states;   // of kShift (one) and kInOrder, by number
    std::vector<int> read;     // kInOrder: slots with a part for each row that are set before
    std::vector<int> given;    // kInOrder: slots that are read elsewhere
  };

  // False: a row reads one position in a step, because of `reason`.
  bool possible = false;
  std::string reason;
  std::vector<Stage> stages;  // in the order in which they run
};

// The plan for `program`, whose plan by rows is `rows`. results: slots that are read after the
// step, the states' next values among them. Steps whose states grow, or that read their number, are
// not for this.
PositionPlan PlanPositions(const Program& program, const RowPlan& rows,
                           absl::Span<const StateSlots> states, absl::Span<const int> results);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_POSITION_PLAN_H_
