// Tables per token. What a decoder's step computes from the token alone (its embedding, the sum of
// its factors' embeddings, and the products of those with weights: X * W^T of the first recurrent
// cell above all) is the same whenever the token comes up again. So it is computed at load, once
// for every token of the vocabulary, and a step looks rows up in the tables that this makes
// (docs/architecture.md, 'Tables').
//
// The bits are those of the step without tables: a row's result does not depend on the other rows.
// That is not taken on trust; tokens are computed alone, too, and compared.
//
// For a search alone, whose slices are tokens of a known vocabulary.
#ifndef BEAMWRIGHT_OPS_DECODER_TOKEN_TABLES_H_
#define BEAMWRIGHT_OPS_DECODER_TOKEN_TABLES_H_

#include <string>

#include "ops/graph/inference.h"

namespace beamwright::ops {

struct TokenTableOptions {
  int64_t num_tokens = 0;  // tables hold tokens [0, num_tokens)
  // Most memory of all tables together, as a multiple of the body's own constants. What does not
  // fit is computed in each step. 0: no tables.
  double max_share = 1;
  ExecutionContext context;  // of their computation
};

struct TokenTables {
  int count = 0;
  int64_t bytes = 0;
  std::string refused;  // why tables are missing where they are possible; else empty
};

// Rewrites the body of `loop`, which has one sliced input, the tokens, and what inference found of
// it. The loop's inputs and outputs stay as they are. A body that gains nothing, or that can't be
// shown to gain the same bits, stays untouched.
TokenTables AddTokenTables(const TokenTableOptions& options, const OperatorSet& operators,
                           Loop& loop, GraphInfo& body_info);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_TOKEN_TABLES_H_
