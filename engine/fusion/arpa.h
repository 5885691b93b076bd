// ReadArpa: n-gram models as SRILM, KenLM and others write them: a header "\data\" with a line
// "ngram N=COUNT" for each order; for each order a section "\N-grams:" of lines with the decimal
// logarithm of a probability, N words and perhaps a back-off weight; "\end\" at the end.
#ifndef BEAMWRIGHT_ENGINE_FUSION_ARPA_H_
#define BEAMWRIGHT_ENGINE_FUSION_ARPA_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

// content: of the file. token_of: the token that a word is, -1 if none; not asked for <s>, </s> and
// <unk> (also <UNK>). N-grams with words that are not tokens can never occur and are left out.
//
// InvalidArgument naming the line: what is no ARPA file, counts that do not fit what follows or
// cannot, logarithms that are not finite numbers or above 0 (probabilities), a back-off weight of
// the highest order; no unigram of any token; and what NgramModel::Create refuses. Memory is in
// proportion to the content, not to what its header promises.
absl::StatusOr<std::shared_ptr<const NgramModel>> ReadArpa(
    absl::string_view content, const NgramVocabulary& vocabulary,
    const std::function<int32_t(absl::string_view)>& token_of);

// The words of the file's unigrams in their order, without <s>, </s> and <unk>. InvalidArgument: as
// ReadArpa of the header and the unigrams' form.
absl::StatusOr<std::vector<std::string>> ReadArpaWords(absl::string_view content);

// The text of a file that gzip has packed. InvalidArgument: it is cut short or damaged, or is more
// than 200 times as large as its packed form, which no language model is.
absl::StatusOr<std::string> UnpackGzip(absl::string_view packed);
bool IsGzip(absl::string_view content);

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_ARPA_H_
