"""model.textproto of a bundle: what the server must know in addition to the graphs."""

COMMON = """# proto-file: beamwright/v1/model.proto
# proto-message: beamwright.v1.ModelConfig
format_version: 1
name: "{name}"
description: "{description}"
encoder {{
  graph: "encoder.xml"
}}
# The only loop of the decoder's graph slices `tokens`; memory and initial states bear the names of the
# encoder's results.
decoder {{
  graph: "decoder.xml"
  logits_output: "logits"
  logits_kind: LOGITS_KIND_LOGITS
  attention_output: "attention"
}}
source {{
  form: {source_form}
  vocabulary: "source.vocab"
  unknown_token: "<unk>"
{lowercase}}}
target {{
  form: {target_form}
  vocabulary: "target.vocab"
  begin_token: "<s>"
  end_tokens: "</s>"
}}
default_options {{
  beam_size: 4
  n_best: 1
  length_penalty: LENGTH_PENALTY_NONE
  stop: STOP_MODE_SAFE
  # Every entry of the lexicon fits (spelled-out abbreviations come closest).
  max_length_factor: 2
  max_length_offset: 10
}}
limits {{
  # Far beyond the longest word of a lexicon; there answers mean nothing.
  max_source_length: 128
  max_target_length: 266
  max_beam_size: 64
}}
"""


def quoted(text: str) -> str:
    """The inside of a string in protobuf's text form."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def model_text(task: str, name: str, description: str) -> str:
    forms = ("TEXT_FORM_CHARACTERS", "TEXT_FORM_WHITESPACE")
    source_form, target_form = forms if task == "g2p" else forms[::-1]
    return COMMON.format(name=quoted(name), description=quoted(description),
                         source_form=source_form, target_form=target_form,
                         lowercase="  lowercase: true\n" if task == "g2p" else "")
