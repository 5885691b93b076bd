// RowExtents: what extents add to the row rules of operators. A rule sees kinds and axes; whether
// an integer that a graph computed about its shapes follows from the number of rows, or only from
// extents that every number of rows leaves alone, is decided by the symbols it is made of.
// Private to compile/.
#ifndef BEAMWRIGHT_OPS_COMPILE_ROW_EXTENTS_H_
#define BEAMWRIGHT_OPS_COMPILE_ROW_EXTENTS_H_

#include <set>
#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ROW_EXTENTS_H_
