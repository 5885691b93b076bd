// RowFollower: which rows each value of a graph belongs to, by the operators' row functions,
// through loops and branches. Positions of a sequence are followed by the same rules, in the place
// of rows (ops/passes/ragged_batches.cc).
#ifndef BEAMWRIGHT_OPS_COMPILE_ROW_FOLLOWER_H_
#define BEAMWRIGHT_OPS_COMPILE_ROW_FOLLOWER_H_

#include <set>
#include <string>
#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

// RowExtents: what extents add to the row rules of operators. A rule sees kinds and axes; whether
// an integer that a graph computed about its shapes follows from the number of rows, or only from
// extents that every number of rows leaves alone, is decided by the symbols it is made of.

class RowExtents {
 public:
  // `rows` is the symbol of the number of rows; `symbols` must outlive this.
  RowExtents(const Extent& rows, const Symbols& symbols)
      : row_symbol_(rows.symbols.at(0)), symbols_(&symbols) {}

  // Takes note of a value's shape: extents of a fixed value, and those of a value with rows on its
  // other axes, are the same for any number of rows and whatever the rows hold. Nothing else is
  // taken for that. To be called for each value before those who read it are looked at.
  void Note(const ValueExtents& value, const RowInfo& info);

  bool IsNumberOfRows(const Extent& extent) const {
    return extent.number == 1 && extent.symbols == std::vector<int>{row_symbol_};
  }

  // The rows of the only output of `node`, of which its rule found `found`. inputs: what is known
  // of each input, null where it is absent.
  RowInfo LookCloser(const Node& node, absl::Span<const RowInfo> rows,
                     absl::Span<const ValueExtents* const> inputs, const ValueExtents& output,
                     const RowInfo& found) const;

 private:
  bool IsIndependent(const Extent& extent) const;
  bool HasRows(const Extent& extent) const;
  RowInfo Broadcast(const Node& node, absl::Span<const RowInfo> rows, const ValueExtents& data,
                    const std::vector<Extent>& target, const RowInfo& found) const;
  RowInfo Reshape(const Node& node, const RowInfo& rows, const std::vector<Extent>& data,
                  const std::vector<Extent>& target, const RowInfo& found) const;
  RowInfo Tile(absl::Span<const RowInfo> rows, const ValueExtents& data,
               const std::vector<Extent>& repeats, const RowInfo& found) const;

  int row_symbol_;
  const Symbols* symbols_;
  std::set<int> independent_;
};

// Attribute of a Loop whose items are held (Loop::Items::kHeld): its body is proven to keep items
// apart, however many there are, and reads no invariant that differs from item to item. So the body
// need not see items that take no part. No file has it.
inline constexpr char kItemsLeave[] = "items_leave";

// A loop that runs along the axis that counts rows, in as many iterations for each of them; or an
// Attention in which each row looks at all.
struct SequenceLoop {
  int node = -1;
  int64_t factor = 1;
};

// What the followers of a graph and of those inside it share.
struct RowContext {
  const OperatorSet& operators;
  Symbols& symbols;
  std::vector<RowInfo>* scales = nullptr;  // as of ProveRowsApart
  // What the rows are, for messages.
  const char* what = "rows";
  // Unless null: the rows are positions that have an order, and a loop of the graph itself that
  // runs along them may carry states from one to the next, and back; so may an Attention look at
  // all. Gets each of them.
  std::vector<SequenceLoop>* sequences = nullptr;
};

class RowFollower {
 public:
  // All must outlive this. parameters: rows of each Parameter of `graph`. row_extents: what is
  // known outside; what is noted in here stays in here, as it may hold for one iteration or branch.
  RowFollower(const Graph& graph, const GraphInfo& info, const Extents& extents,
              RowExtents row_extents, const std::vector<RowInfo>& parameters,
              const RowContext& context);

  const RowInfo& of(ValueId id) const {
    return rows_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  }
  // Of what Result `index` reads.
  const RowInfo& result(int index) const { return of(ResultValue(index)); }
  ValueId ResultValue(int index) const;
  // Why a mixed value is mixed: the first node on the way to it whose inputs are not.
  std::string WhyMixed(ValueId id) const;

 private:
  void Follow(int index);
  bool IsDeclared(int index, int axis) const;
  void FollowOperator(int index, const std::vector<RowInfo>& inputs);
  // Of positions alone: what counts them from the first one, and an Attention among them.
  bool CountsPositions(int index, const std::vector<RowInfo>& inputs) const;
  bool AttendsToPositions(const Node& node, const std::vector<RowInfo>& inputs) const;
  void NoteScale(const Node& node, const std::vector<RowInfo>& inputs) const;
  void FollowLoop(int index, const std::vector<RowInfo>& inputs);
  bool RunsAlongRows(const Node& node, const std::vector<RowInfo>& inputs) const;
  // Whether a sliced input is sliced along the axis that counts its rows.
  bool SlicesRows(const Node& node, const LoopInput& rule,
                  const std::vector<RowInfo>& inputs) const;
  // The axis along which parts of an output are joined; -1: not known, or they are scalars.
  static int AxisOf(const Loop& loop, const LoopOutput& rule);
  void FollowSequence(int index, const std::vector<RowInfo>& inputs);
  // Why iterations of a loop that runs along rows are not one for each row, in their order, that
  // hands on the row's own; nothing if they are.
  std::string WhyNoSequence(const Node& node, const std::vector<RowInfo>& inputs) const;
  void FollowItemsApart(int index, const std::vector<RowInfo>& inputs);
  void FollowBranches(int index, const std::vector<RowInfo>& inputs);
  // Rows of a loop's body Parameter; mixed if unknown.
  RowInfo Entering(const Node& node, const LoopInput& rule,
                   const std::vector<RowInfo>& inputs) const;
  // Rows of a loop's output that is made of a body result with `rows` and of this rank (-1: not
  // known).
  static RowInfo Leaving(const LoopOutput& rule, const RowInfo& rows, int rank);
  // Why a loop's outputs are mixed, nothing if they are not. body: what was found inside.
  std::string WhyLoopMixes(const Node& node, const std::vector<RowInfo>& inputs,
                           const std::vector<RowInfo>& entering, const RowFollower& body) const;
  void Mix(int index, std::string why);
  // For the graphs inside this one.
  RowContext Inside() const {
    RowContext inside = context_;
    inside.sequences = nullptr;
    return inside;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  RowExtents row_extents_;
  const RowContext context_;
  std::vector<std::vector<RowInfo>> rows_;  // by node and output
  std::vector<std::string> why_;            // by node: why it mixes rows, where it begins
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ROW_FOLLOWER_H_
