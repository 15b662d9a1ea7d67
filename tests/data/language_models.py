# language_models.py -- writes gpt2/ and llama/: folders of small random models saved by transformers, with their
# results; test_language_models.lua runs scripts/gpt2.lua on them
#
#   python3 tests/data/language_models.py
#
# Each has config.json, model.safetensors, tokenizer.json (bytes and some merges) and expected.safetensors with
# input_ids and the logits of transformers.
import os

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

here = os.path.dirname(os.path.abspath(__file__))
text = 'the small cat sees a red house near the river. the old dog follows a blue boat in the garden.\n' * 4

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator([text], trainers.BpeTrainer(
    vocab_size=300, special_tokens=['<|endoftext|>'], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False))
n = tokenizer.get_vocab_size()

torch.manual_seed(1)
small = {
    'gpt2': GPT2LMHeadModel(GPT2Config(vocab_size=n, n_positions=32, n_embd=16, n_layer=2, n_head=2,
                                       initializer_range=0.3)),
    'llama': LlamaForCausalLM(LlamaConfig(
        vocab_size=n, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rope_theta=10000.0, tie_word_embeddings=False,
        initializer_range=0.3)),
}
ids = torch.tensor([tokenizer.encode(text).ids[:20]])
for name, model in small.items():
    folder = os.path.join(here, name)
    model.eval()
    with torch.no_grad():
        logits = model(ids).logits
    model.save_pretrained(folder)
    tokenizer.save(os.path.join(folder, 'tokenizer.json'))
    save_file({'input_ids': ids, 'logits': logits.contiguous()}, os.path.join(folder, 'expected.safetensors'))
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    for extra in ('generation_config.json',):
        path = os.path.join(folder, extra)
        if os.path.exists(path):
            os.remove(path)
    print(name, sorted(os.listdir(folder)), sum(p.numel() for p in model.parameters()))
