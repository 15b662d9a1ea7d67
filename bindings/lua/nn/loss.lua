-- loss.lua -- losses and distances as modules, called with scores and targets, whose positions count from 1
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

return {
  BCELoss = module.of(mt.binary_cross_entropy, 2),
  BCEWithLogitsLoss = module.of(mt.binary_cross_entropy_with_logits, 2),
  CTCLoss = module.of(mt.ctc_loss, 4),
  CosineEmbeddingLoss = module.of(mt.cosine_embedding_loss, 3),
  CosineSimilarity = module.of(mt.cosine_similarity, 2),
  CrossEntropyLoss = module.of(mt.cross_entropy, 2,
    {label_smoothing = 'number >= 0 <= 1 = 0'}),
  GaussianNLLLoss = module.of(mt.gaussian_nll_loss, 3, {eps = 'number > 0 = 1e-6'}),
  HingeEmbeddingLoss = module.of(mt.hinge_embedding_loss, 2),
  HuberLoss = module.of(mt.huber_loss, 2, {delta = 'number > 0 = 1'}),
  KLDivLoss = module.of(mt.kl_div, 2),
  L1Loss = module.of(mt.l1_loss, 2),
  MSELoss = module.of(mt.mse_loss, 2),
  MarginRankingLoss = module.of(mt.margin_ranking_loss, 3),
  MultiLabelMarginLoss = module.of(mt.multilabel_margin_loss, 2),
  MultiLabelSoftMarginLoss = module.of(mt.multilabel_soft_margin_loss, 2),
  MultiMarginLoss = module.of(mt.multi_margin_loss, 2, {p = 'int >= 1 <= 2 = 1'}),
  NLLLoss = module.of(mt.nll_loss, 2),
  PairwiseDistance = module.of(mt.pairwise_distance, 2),
  PoissonNLLLoss = module.of(mt.poisson_nll_loss, 2),
  SmoothL1Loss = module.of(mt.smooth_l1_loss, 2, {beta = 'number >= 0 = 1'}),
  SoftMarginLoss = module.of(mt.soft_margin_loss, 2),
  TripletMarginLoss = module.of(mt.triplet_margin_loss, 3, {margin = 'number > 0 = 1'}),
}
