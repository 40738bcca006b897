# Tests that compare how long things take, or that act while something lasts: ctest runs nothing beside them.
set_tests_properties(apps.PlanCalibration.MeasuresThisHost
                     apps.TrainMeshFailures.OfAStoppedRankNameItsStage
                     apps.TrainProgram.MeasuresThePeakAgainWhenAStepIsFaster
                     apps.TrainProgram.NamesARankThatIsSlow
                     apps.TrainRestart.SavesAtOnceWhereAKillBrokeOffASave
                     apps.TrainTerminal.KeepsALinePerValidationAndWrapsNone
                     PROPERTIES RUN_SERIAL TRUE)
set_tests_properties(apps.PlanCalibration.MeasuresThisHost PROPERTIES TIMEOUT 300)
