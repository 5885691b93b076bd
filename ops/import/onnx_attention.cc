// Attention of several heads: ONNX's own operator, and those of com.microsoft that ONNX Runtime's
// optimiser writes.
//
// All of them become the same products: queries and keys are brought into the form [batch, heads,
// positions, width] (Apart), past keys and values are put in front (Behind), scores are scaled,
// capped and masked in the order that the operator's document names (Scored), and the softmax of
// them weighs the values (Attended). The operators differ in how they pack their inputs and what
// their masks mean. Several heads of queries may share one head of keys and values; they are then
// rows of one product.
//
// What else ONNX Runtime's optimiser fuses is behind it (PlusBias and the operators that follow).
#include <cmath>
#include <limits>

#include "ops/import/onnx_operators.h"

namespace beamwright::ops {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

// [batch, heads, positions, width of a head] each; keys and values may have fewer heads.
struct Heads {
  ValueId query;
  ValueId key;
  ValueId value;
};

// What happens to the scores, the products of queries and keys, in this order.
struct Scoring {
  double scale = 0;    // 0: 1 / sqrt(width of a head)
  double cap = 0;      // cap * tanh(score / cap), unless it is 0
  ValueId kept;        // false: the key is not looked at; may be absent
  double masked = 0;   // added where `kept` is false
  ValueId added;       // may be absent
  ValueId earlier;     // false: the key is later than the query; may be absent
  bool drops = false;  // a query without a key that is kept gets 0, and not all of them
};

// [batch, positions, heads, width] with the heads in front of the positions, or back.
ValueId Swapped(OnnxNode& n, ValueId x) { return n.Add("Transpose", {x, n.List({0, 2, 1, 3})}); }

// [batch, positions, heads * width] as [batch, heads, positions, width].
ValueId Apart(OnnxNode& n, ValueId x, int64_t heads) {
  return Swapped(n, Reshaped(n, x, {0, 0, heads, -1}));
}

ValueId Together(OnnxNode& n, ValueId x) { return Reshaped(n, Swapped(n, x), {0, 0, -1}); }

ValueId Product(OnnxNode& n, ValueId a, ValueId b, bool transposed) {
  return n.Add("MatMul", {a, b}, {{"transpose_a", false}, {"transpose_b", transposed}});
}

// Past keys or values, and behind them those of this call.
ValueId Behind(OnnxNode& n, ValueId past, ValueId now) {
  return n.Add("Concat", {past, now}, {{"axis", int64_t{2}}});
}

// Whether a key is no later than a query, [queries, keys], with `past` keys (an i64 scalar) in
// front of the first query's key.
ValueId Earlier(OnnxNode& n, const Heads& heads, ValueId num_past) {
  const ValueId own = n.Add("Add", {Counting(n, ExtentOf(n, heads.query, 2)), num_past});
  return n.Add("LessEqual", {Counting(n, ExtentOf(n, heads.key, 2)), Reshaped(n, own, {-1, 1})});
}

// scores [batch, heads, queries, keys]
ValueId Scored(OnnxNode& n, ValueId scores, const Scoring& scoring) {
  scores = n.Add("Multiply", {scores, n.Like(scoring.scale, scores)});
  if (scoring.cap != 0) {
    const ValueId cap = n.Like(scoring.cap, scores);
    scores = n.Add("Multiply", {n.Add("Tanh", {n.Add("Divide", {scores, cap})}), cap});
  }
  if (scoring.kept.present()) {
    const ValueId mask =
        n.Add("Select", {scoring.kept, n.Like(0, scores), n.Like(scoring.masked, scores)});
    scores = n.Add("Add", {scores, mask});
  }
  if (scoring.added.present()) {
    scores = n.Add("Add", {scores, scoring.added});
  }
  if (scoring.earlier.present()) {
    scores = n.Add("Select", {scoring.earlier, scores, n.Like(kLowest, scores)});
  }
  return scores;
}

// Where every key of a query is masked, the softmax would spread over all of them.
ValueId Dropped(OnnxNode& n, ValueId shares, const Scoring& scoring) {
  if (!scoring.drops || !scoring.kept.present()) {
    return shares;
  }
  const ValueId is_read = scoring.earlier.present()
                              ? n.Add("LogicalAnd", {scoring.kept, scoring.earlier})
                              : scoring.kept;
  return n.Add("Select", {is_read, shares, n.Like(0, shares)});
}

// How many heads a value has; an error, and 0, if that is not known.
int64_t HeadsOf(OnnxNode& n, ValueId x) {
  const int64_t heads = n.Rank(x) == 4 ? n.info(x).shape.dim(1) : 0;
  if (n.ok() && heads < 1) {
    n.Fail("the number of heads is not known");
  }
  return n.ok() ? heads : 0;
}

// [batch, heads of the queries, queries, width of a value's head]
ValueId Attended(OnnxNode& n, const Heads& heads, Scoring scoring) {
  const int64_t num_queries = HeadsOf(n, heads.query);
  const int64_t num_keys = HeadsOf(n, heads.key);
  if (n.ok() && num_queries % num_keys != 0) {
    n.Fail("there are ", num_queries, " heads of queries and ", num_keys,
           " of keys; the first must be a multiple of the second");
  }
  if (n.ok() && scoring.scale == 0) {
    const int64_t width = n.info(heads.query).shape.dim(3);
    if (width < 1) {
      n.Fail("the width of a head is not known; set attribute 'scale'");
    }
    scoring.scale = 1 / std::sqrt(static_cast<double>(width));
  }
  if (!n.ok()) {
    return {};
  }
  // Queries that share the keys of a head stand one below the other.
  const bool is_grouped = num_queries != num_keys;
  const auto grouped = [&](ValueId x, int64_t count) {
    return is_grouped ? Reshaped(n, x, {0, count, -1, 0}) : x;
  };
  const ValueId products = Product(n, grouped(heads.query, num_keys), heads.key, true);
  const ValueId scores = Scored(n, grouped(products, num_queries), scoring);
  const ValueId shares = Dropped(n, n.Add("SoftMax", {scores}, {{"axis", int64_t{-1}}}), scoring);
  return grouped(Product(n, grouped(shares, num_keys), heads.value, false), num_queries);
}

// Keys that a vector of lengths [batch] keeps: [batch, 1, 1, keys].
ValueId KeptByLength(OnnxNode& n, ValueId lengths, ValueId keys) {
  const ValueId ends = Reshaped(n, ConvertTo(n, lengths, DType::kI64), {-1, 1, 1, 1});
  return n.Add("Less", {Counting(n, ExtentOf(n, keys, 2)), ends});
}

// By a mask of com.microsoft: lengths [batch], or numbers above 0 for what is kept,
// [batch, keys] or [batch, queries, keys].
ValueId KeptByMask(OnnxNode& n, ValueId mask, ValueId keys) {
  const int rank = n.Rank(mask);
  if (rank == 1) {
    const int64_t given = n.info(mask).shape.dim(0);
    const int64_t batch = n.info(keys).shape.dim(0);
    if (given >= 0 && batch >= 0 && given != batch) {
      n.Unsupported("the mask has ", given, " numbers for a batch of ", batch,
                    "; it must be a length for each item, or a matrix");
    }
    return KeptByLength(n, mask, keys);
  }
  if (rank != 2 && rank != 3) {
    n.Unsupported("the mask has rank ", rank, "; it must be 1, 2 or 3");
    return {};
  }
  const std::vector<int64_t> axes =
      rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1};
  const ValueId numbers = n.Add("Unsqueeze", {mask, n.List(axes)});
  return n.Add("Greater", {numbers, n.Like(0, numbers)});
}

// As attributes and inputs of com.microsoft say; the last query has the place of the last key.
Scoring MicrosoftScoring(OnnxNode& n, int mask, int bias, const Heads& heads) {
  Scoring scoring;
  scoring.scale = n.Float("scale", 0);
  scoring.masked = n.Float("mask_filter_value", -10000);
  if (n.Has(mask)) {
    scoring.kept = KeptByMask(n, n.In(mask), heads.key);
  }
  scoring.added = n.In(bias);
  if (n.Flag("unidirectional", false)) {
    const ValueId num_past =
        n.Add("Subtract", {ExtentOf(n, heads.key, 2), ExtentOf(n, heads.query, 2)});
    scoring.earlier = Earlier(n, heads, num_past);
  }
  return scoring;
}

int64_t NumHeads(OnnxNode& n, const char* attribute) {
  const int64_t heads = n.Int(attribute, 0);
  if (heads < 1) {
    n.Fail("attribute '", attribute, "' is ", heads, "; it must be at least 1");
  }
  return heads;
}

void MustBeUnset(OnnxNode& n, const char* attribute) {
  if (n.Flag(attribute, false)) {
    n.Unsupported("attribute '", attribute, "' must be 0");
  }
}

// Widths of queries, keys and values, which the weights have side by side.
std::vector<int64_t> ProjectedWidths(OnnxNode& n) {
  std::vector<int64_t> widths = n.Ints("qkv_hidden_sizes");
  if (!widths.empty()) {
    if (widths.size() != 3) {
      n.Fail("attribute 'qkv_hidden_sizes' has ", widths.size(), " numbers; it must have 3");
    }
    return widths;
  }
  const PartialShape shape = n.info(n.In(1)).shape;
  if (!shape.has_rank() || shape.rank() != 2 || shape.dim(1) < 3 || shape.dim(1) % 3 != 0) {
    n.Fail("weights ", shape.ToString(), " do not make three parts of known and equal widths");
    return {};
  }
  return std::vector<int64_t>(3, shape.dim(1) / 3);
}

// The past [2, batch, heads, positions, width] holds keys and values.
void JoinPast(OnnxNode& n, Heads& heads) {
  if (n.Has(4)) {
    const auto past = [&](int64_t index) {
      return n.Add("Gather", {n.In(4), n.Scalar(index), n.Scalar(0)});
    };
    heads.key = Behind(n, past(0), heads.key);
    heads.value = Behind(n, past(1), heads.value);
  }
  if (n.Wants(1)) {
    const auto stacked = [&](ValueId x) { return n.Add("Unsqueeze", {x, n.List({0})}); };
    n.Out(1, n.Add("Concat", {stacked(heads.key), stacked(heads.value)}, {{"axis", int64_t{0}}}));
  }
}

// Projects its input itself.
void MicrosoftAttention(OnnxNode& n) {
  const int64_t num_heads = NumHeads(n, "num_heads");
  MustBeUnset(n, "do_rotary");
  MustBeUnset(n, "past_present_share_buffer");
  n.Ignore("rotary_embedding_dim");
  const std::vector<int64_t> widths = ProjectedWidths(n);
  if (!n.ok()) {
    return;
  }
  ValueId projected = Product(n, n.In(0), n.In(1), false);
  if (n.Has(2)) {
    projected = n.Add("Add", {projected, n.In(2)});
  }
  const ValueId parts = n.Add("VariadicSplit", {projected, n.Scalar(2), n.List(widths)}, {}, 3);
  const auto part = [&](int index) {
    return Apart(n, ValueId{parts.node, parts.output + index}, num_heads);
  };
  Heads heads = {part(0), part(1), part(2)};
  JoinPast(n, heads);
  n.Out(0, Together(n, Attended(n, heads, MicrosoftScoring(n, 3, 5, heads))));
}

// Adds the parts of a bias [width of queries + of keys + of values] to [batch, positions, width].
void AddBias(OnnxNode& n, bool to_queries_alone, Heads& given) {
  const int64_t width = n.Rank(given.query) == 3 ? n.info(given.query).shape.dim(2) : 0;
  if (n.ok() && width < 1) {
    n.Fail("the width of the queries is not known; a bias needs it");
  }
  const ValueId parts =
      n.Add("VariadicSplit", {n.In(3), n.Scalar(0), n.List({width, width, -1})}, {}, 3);
  const auto with = [&](ValueId x, int index) {
    return n.Add("Add", {x, ValueId{parts.node, parts.output + index}});
  };
  given.query = with(given.query, 0);
  if (!to_queries_alone) {
    given.key = with(given.key, 1);
    given.value = with(given.value, 2);
  }
}

// Keys and values of rank 4 have their heads in front already, as a decoder keeps its encoder's.
void MultiHeadAttention(OnnxNode& n) {
  const int64_t num_heads = NumHeads(n, "num_heads");
  if (!n.Has(1) || !n.Has(2)) {
    n.Unsupported("queries, keys and values must be three inputs");
  }
  Heads heads = {n.In(0), n.In(1), n.In(2)};
  const bool is_split = n.ok() && n.Rank(heads.key) == 4;
  if (n.Has(3)) {
    AddBias(n, is_split, heads);
  }
  heads.query = Apart(n, heads.query, num_heads);
  if (!is_split) {
    heads.key = Apart(n, heads.key, num_heads);
    heads.value = Apart(n, heads.value, num_heads);
  }
  if (n.Has(6) && n.Has(7)) {
    heads.key = Behind(n, n.In(6), heads.key);
    heads.value = Behind(n, n.In(7), heads.value);
  }
  n.Out(1, heads.key);
  n.Out(2, heads.value);
  n.Out(0, Together(n, Attended(n, heads, MicrosoftScoring(n, 4, 5, heads))));
}

void AddStandardMask(OnnxNode& n, const Heads& heads, Scoring& scoring) {
  if (n.Has(3)) {
    const bool is_kept = n.Type(n.In(3)) == DType::kBool;
    (is_kept ? scoring.kept : scoring.added) = n.In(3);
  }
  if (n.Has(6)) {
    if (scoring.kept.present() || scoring.earlier.present()) {
      n.Unsupported("'nonpad_kv_seqlen' with a boolean mask or 'is_causal' is not supported");
    }
    scoring.kept = KeptByLength(n, n.In(6), heads.key);
  }
}

// Of opset 23.
void StandardAttention(OnnxNode& n) {
  if (n.Wants(3)) {
    n.Unsupported("output 'qk_matmul_output' is not supported");
  }
  for (const char* window : {"left_window_size", "right_window_size"}) {
    if (n.version() >= 25 && n.Int(window, -1) != -1) {
      n.Unsupported("attribute '", window, "' must be -1: a query sees all keys");
    }
  }
  n.Ignore("qk_matmul_output_mode");
  n.Ignore("softmax_precision");
  Heads heads = {n.In(0), n.In(1), n.In(2)};
  const bool is_joined = n.Rank(heads.query) == 3;
  if (is_joined) {
    const int64_t num_keys = NumHeads(n, "kv_num_heads");
    heads = {Apart(n, heads.query, NumHeads(n, "q_num_heads")), Apart(n, heads.key, num_keys),
             Apart(n, heads.value, num_keys)};
  }
  Scoring scoring;
  scoring.scale = n.Float("scale", 0);
  scoring.cap = n.Float("softcap", 0);
  scoring.masked = kLowest;
  scoring.drops = true;
  const bool has_past = n.Has(4) && n.Has(5);
  if (has_past) {
    heads.key = Behind(n, n.In(4), heads.key);
    heads.value = Behind(n, n.In(5), heads.value);
  }
  if (n.Flag("is_causal", false)) {
    scoring.earlier = Earlier(n, heads, has_past ? ExtentOf(n, n.In(4), 2) : n.Scalar(0));
  }
  n.Out(1, heads.key);
  n.Out(2, heads.value);
  AddStandardMask(n, heads, scoring);
  const ValueId y = Attended(n, heads, scoring);
  n.Out(0, is_joined ? Together(n, y) : y);
}

}  // namespace

std::vector<OnnxOperator> OnnxAttention() {
  return {
      {"Attention", {23, 24, 25}, 3, 7, 4, "MatMul, Reshape, SoftMax, Select", StandardAttention}};
}

std::vector<OnnxOperator> OnnxMicrosoftAttention() {
  return {
      {"Attention", {1}, 2, 6, 2, "MatMul, VariadicSplit, Transpose, SoftMax", MicrosoftAttention},
      {"MultiHeadAttention",
       {1},
       3,
       8,
       3,
       "MatMul, Transpose, SoftMax, Concat",
       MultiHeadAttention},
  };
}

// What ONNX Runtime's optimiser makes of several operators: domain com.microsoft. Each is written
// as the operators that it was made of; later passes fuse them again in the way that suits our
// kernels. Products and activations are those of onnx_products.cc and onnx_elementwise.cc,
// normalisations those of onnx_reduce.cc.
namespace {

constexpr double kSkipEpsilon = 1e-12f;

ValueId PlusBias(OnnxNode& n, ValueId x, int bias) {
  return n.Has(bias) ? n.Add("Add", {x, n.In(bias)}) : x;
}

void BiasGelu(OnnxNode& n) {
  n.Out(0, n.Add("Gelu", {PlusBias(n, n.In(0), 1)}, {{"approximation_mode", "erf"}}));
}

void FastGelu(OnnxNode& n) {
  n.Out(0, n.Add("Gelu", {PlusBias(n, n.In(0), 1)}, {{"approximation_mode", "tanh"}}));
}

// x * sigmoid(alpha * x)
void QuickGelu(OnnxNode& n) {
  n.Out(0, n.Add("Swish", {n.In(0), n.Like(n.Float("alpha", 1.702f), n.In(0))}));
}

// The first axis moved to where a matrix has its rows: [M, batch..., K] to [batch..., M, K].
ValueId RowsFirst(OnnxNode& n, ValueId x) {
  const int rank = n.Rank(x);
  std::vector<int64_t> order;
  for (int axis = 1; axis + 1 < rank; ++axis) {
    order.push_back(axis);
  }
  order.push_back(0);
  if (rank > 1) {
    order.push_back(rank - 1);
  }
  return rank > 2 ? n.Add("Transpose", {x, n.List(order)}) : x;
}

void FusedMatMul(OnnxNode& n) {
  const ValueId a = n.Flag("transBatchA", false) ? RowsFirst(n, n.In(0)) : n.In(0);
  const ValueId b = n.Flag("transBatchB", false) ? RowsFirst(n, n.In(1)) : n.In(1);
  n.Out(0, ScaledProduct(n, a, b));
}

std::optional<double> Number(OnnxNode& n, const char* name) {
  return n.HasAttribute(name) ? std::optional<double>(n.Float(name, 0)) : std::nullopt;
}

void FusedGemm(OnnxNode& n) {
  const ActivationNumbers numbers = {Number(n, "activation_alpha"), Number(n, "activation_beta"),
                                     Number(n, "activation_gamma")};
  const std::string activation = n.String("activation", "");
  const ValueId y = GeneralProduct(n);
  n.Out(0, activation.empty() ? y : Activated(n, y, activation, numbers));
}

// A fourth input is added in front of the activation.
void FusedConv(OnnxNode& n) {
  const std::vector<double> params = n.Floats("activation_params");
  ActivationNumbers numbers;
  if (!params.empty()) {
    numbers.alpha = params[0];
  }
  if (params.size() > 1) {
    numbers.beta = params[1];
  }
  const std::string activation = n.String("activation", "");
  const ValueId y = PlusBias(n, Convolved(n, n.In(0), n.In(1), n.In(2)), 3);
  n.Out(0, activation.empty() ? y : Activated(n, y, activation, numbers));
}

// Both inputs together, and the bias at `bias`; a skip may lack the axis of the batch.
ValueId Skipped(OnnxNode& n, int bias) {
  const ValueId sum = PlusBias(n, n.Add("Add", {n.In(0), n.In(1)}), bias);
  n.Out(3, sum);
  return sum;
}

void SkipLayerNormalization(OnnxNode& n) {
  const double epsilon = n.Float("epsilon", kSkipEpsilon);
  const ValueId x = Skipped(n, 4);
  n.Out(0, LayerNormalized(n, x, {-1}, epsilon, n.In(2), n.In(3)));
  WriteMoments(n, x, {-1}, epsilon, 1);
}

void SkipSimplifiedLayerNormalization(OnnxNode& n) {
  const double epsilon = n.Float("epsilon", kSkipEpsilon);
  const ValueId x = Skipped(n, 3);
  n.Out(0, RmsNormalized(n, x, {-1}, epsilon, n.In(2), 2));
}

}  // namespace

std::vector<OnnxOperator> OnnxMicrosoftFused() {
  return {
      {"BiasGelu", {1}, 2, 2, 1, "Add, Gelu", BiasGelu},
      {"FastGelu", {1}, 1, 2, 1, "Add, Gelu", FastGelu},
      {"FusedConv", {1}, 2, 4, 1, "Convolution, Add, ReLU", FusedConv},
      {"FusedGemm", {1}, 2, 3, 1, "MatMul, Multiply, Add, ReLU", FusedGemm},
      {"FusedMatMul", {1}, 2, 2, 1, "Transpose, MatMul, Multiply", FusedMatMul},
      {"QuickGelu", {1}, 1, 1, 1, "Swish", QuickGelu},
      {"SkipLayerNormalization", {1}, 3, 5, 4, "Add, MVN, Multiply", SkipLayerNormalization},
      {"SkipSimplifiedLayerNormalization",
       {1},
       3,
       4,
       4,
       "Add, ReduceMean, Sqrt, Divide, Multiply",
       SkipSimplifiedLayerNormalization},
  };
}

}  // namespace beamwright::ops
