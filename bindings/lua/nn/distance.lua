-- distance.lua -- distances between vectors as modules
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

return {
  CosineSimilarity = module.of(mt.cosine_similarity, 2),
  PairwiseDistance = module.of(mt.pairwise_distance, 2),
}
